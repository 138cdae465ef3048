#!/usr/bin/env bash
# Checks the symbols that libvolta and its backends export. Symbols of the version VOLTA_<abi> must be declared in the
# public headers: each part of their names is a word there. Symbols of VOLTA_<abi>_PRIVATE, which backends and tests of
# the same build use, must be in namespace volta. A backend exports one function.
#   exports.sh INCLUDE_FOLDER ABI LIBVOLTA [BACKEND...]
set -euo pipefail
include=$1 abi=$2 library=$3
shift 3
words=$(mktemp)
trap 'rm -f "$words"' EXIT
find "$include" -name '*.h' -exec cat {} + | grep -oE '[A-Za-z_][A-Za-z_0-9]*' | LC_ALL=C sort -u >"$words"

nm -D --with-symbol-versions --defined-only "$library" | awk -v words="$words" -v abi="VOLTA_$abi" '
  BEGIN { while ((getline word < words) > 0) known[word] = 1 }
  $2 == "A" && ($3 == abi || $3 == abi "_PRIVATE") { next }  # the names of the versions
  {
    split($3, parts, /@@?/)
    name = parts[1]; version = parts[2]
    if (version != abi && version != abi "_PRIVATE") { print name ": has no version of libvolta"; bad = 1; next }
    # A nested name in namespace volta is a sequence of lengths and identifiers.
    if (!match(name, /^_Z(T[VIST]|Th[n0-9]*_|Tv[n0-9_]*_|Z)?N[KRO]*5volta/)) {
      print name ": is not in namespace volta"; bad = 1; next
    }
    count[version]++
    if (version != abi) next
    rest = substr(name, RLENGTH + 1)
    while (match(rest, /^[0-9]+/)) {
      bytes = substr(rest, 1, RLENGTH)
      word = substr(rest, RLENGTH + 1, bytes)
      if (!(word in known)) { print name ": " word " is in no public header, but its version is " abi; bad = 1 }
      rest = substr(rest, RLENGTH + 1 + bytes)
      if (rest ~ /^B5cxx11/) rest = substr(rest, 8)
    }
  }
  END {
    if (count[abi] < 1000) { print "only " count[abi] + 0 " symbols of " abi; bad = 1 }
    printf "%d symbols of %s, %d of %s_PRIVATE\n", count[abi], abi, count[abi "_PRIVATE"], abi
    exit bad
  }'

for backend in "$@"; do
  exported=$(nm -D --defined-only "$backend" | awk '{print $3}')
  if [[ $exported != volta_create_backend ]]; then
    echo "$backend exports more than volta_create_backend:"
    head -20 <<<"$exported"
    exit 1
  fi
done
