#!/usr/bin/env bash
# The thread-local variables of libvolta take at most LIMIT bytes, and it asks for nobody else's at a fixed place:
# the loader refuses that once another library's variables have been given memory (dlopen after PyTorch).
#   tls_size.sh LIMIT LIBVOLTA
set -euo pipefail
limit=$1 library=$2
size=$(($(readelf -lW "$library" | awk '$1 == "TLS" {print $6}')))
echo "$size bytes of thread-local variables"
if ((size > limit)); then
  echo "more than $limit:"
  readelf -sW "$library" | awk '$4 == "TLS" {print $3, $8}' | c++filt | sort -rn | uniq
  exit 1
fi
# TPOFF64 is the fixed place. Of another library's variable it has that one's name.
foreign=$(readelf -rW "$library" | awk '$3 == "R_X86_64_TPOFF64" && $5 ~ /@/ && $5 !~ /VOLTA/ {print $5}')
if [[ -n $foreign ]]; then
  echo "variables of other libraries at a fixed place: $foreign"
  exit 1
fi
