#!/usr/bin/env bash
# What `#include <volta/volta.h>` costs a user: no more than a second of the compiler (processor time, the
# best of three, or of ten where others use the machine), and no header from outside Volta and the standard library.
#   header_cost.sh <compiler> <include folder>
set -euo pipefail

compiler=$1
include=$2
limit_ms=1000

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile=("$compiler" -std=c++20 -I "$include")
printf '#include <volta/volta.h>\n' >"$work/user.cpp"
printf '#include <bits/stdc++.h>\n' >"$work/standard.cpp"

# Every header that a source file reads, one a line.
headers() {
  "${compile[@]}" -M "$1" | tr ' ' '\n' | grep '\.h$\|/[a-z0-9_+]*$' | xargs realpath | sort -u
}
headers "$work/user.cpp" >"$work/user"
headers "$work/standard.cpp" >"$work/standard"
grep -q '/volta/tensor\.h$' "$work/user"
foreign=$(comm -23 "$work/user" "$work/standard" | grep -v -F "$(realpath "$include")/volta/" || true)
if [[ -n $foreign ]]; then
  printf 'volta.h brings headers from outside:\n%s\n' "$foreign" >&2
  exit 1
fi

best=
TIMEFORMAT='%U %S'
for run in 1 2 3 4 5 6 7 8 9 10; do
  if [[ $run -gt 3 && $best -le $limit_ms ]]; then break; fi
  spent=$({ time "${compile[@]}" -fsyntax-only "$work/user.cpp"; } 2>&1)
  ms=$(awk '{printf "%d", ($1 + $2) * 1000}' <<<"$spent")
  if [[ -z $best || $ms -lt $best ]]; then best=$ms; fi
done
echo "volta.h: $best ms to include (limit $limit_ms ms)"
[[ $best -le $limit_ms ]]
