#!/usr/bin/env bash
# Runs an example and compares the last number it prints that matches the pattern with a bound.
#   run_example.sh 'pattern with a (number)' '<=|>=|=' bound program [argument ...]
set -uo pipefail
pattern=$1 relation=$2 bound=$3
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1 # the example saves files here
output=$("$@" 2>&1) || { echo "$output"; echo "exit $?"; exit 1; }
echo "$output" | tail -30
number=$(echo "$output" | sed -nE "s/.*$pattern.*/\1/p" | tail -1)
[ -n "$number" ] || { echo "nothing like: $pattern"; exit 1; }
echo "$number, wanted $relation $bound"
awk -v a="$number" -v b="$bound" -v r="$relation" 'BEGIN { exit !(r == "=" ? a == b : r == "<=" ? a <= b : a >= b) }'
