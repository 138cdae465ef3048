#!/usr/bin/env bash
# Checks the cost of `#include <volta/volta.h>`: at most one and a half seconds of compile time (processor time, the
# best of three), and no header from outside Volta and the standard library.
#   header_cost.sh <compiler> <include folder>
set -euo pipefail

compiler=$1
include=$2
limit_ms=1500 # the goal is 1000

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile=("$compiler" -std=c++20 -I "$include")
printf '#include <volta/volta.h>\n' >"$work/user.cpp"
printf '#include <bits/stdc++.h>\n' >"$work/standard.cpp"

# Prints every header that a source file includes, one per line.
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

# Prints the processor time of the compiler in milliseconds, the best of three.
cost() {
  local best= spent ms
  TIMEFORMAT='%U %S'
  for _ in 1 2 3; do
    spent=$({ time "${compile[@]}" -fsyntax-only "$1"; } 2>&1)
    ms=$(awk '{printf "%d", ($1 + $2) * 1000}' <<<"$spent")
    if [[ -z $best || $ms -lt $best ]]; then best=$ms; fi
  done
  echo "$best"
}
best=$(cost "$work/user.cpp")
if [[ $best -gt $limit_ms ]]; then
  # On a slow or busy machine the limit grows with the cost of including the whole standard library.
  standard=$(cost "$work/standard.cpp")
  usual_ms=1600
  if [[ $standard -gt $usual_ms ]]; then limit_ms=$((limit_ms * standard / usual_ms)); fi
fi
echo "volta.h: $best ms to include (limit $limit_ms ms)"
[[ $best -le $limit_ms ]]
