#!/usr/bin/env bash
# Checks that the thread-local variables of libvolta take at most LIMIT bytes, and that it uses no variable of another
# library at a fixed offset: the loader rejects that if the library already has memory (dlopen after PyTorch).
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
# The relocation TPOFF64 is a fixed offset. It has a name if the variable is another library's.
foreign=$(readelf -rW "$library" | awk '$3 == "R_X86_64_TPOFF64" && $5 ~ /@/ && $5 !~ /VOLTA/ {print $5}')
if [[ -n $foreign ]]; then
  echo "variables of other libraries at a fixed place: $foreign"
  exit 1
fi
