#!/usr/bin/env bash
# Runs a slow program until it has printed a line that matches the pattern, then ends it.
#   first_lines.sh 'pattern' seconds program [argument ...]
set -u
pattern=$1 seconds=$2
shift 2
folder=$(mktemp -d)
cd "$folder" || exit 1
stdbuf -oL "$@" > output 2>&1 &
program=$!
trap 'kill -9 $program 2>/dev/null; wait $program 2>/dev/null; rm -rf "$folder"' EXIT
for ((i = 0; i < seconds; i++)); do
  grep -E "$pattern" output && exit 0
  kill -0 $program 2>/dev/null || break
  sleep 1
done
cat output
echo "nothing like: $pattern"
exit 1
