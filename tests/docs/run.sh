#!/usr/bin/env bash
# Runs the examples of a page and compares their output with the page.
#   run.sh <page> <expected> <1 where products are oneDNN's, else 0> <program, or program:LINE> ...
# A program with a line is a whole program of the page. The other one has the page's fragments and prints their lines.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
page=$1 expected=$2 onednn=$3
shift 3

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/run" && cd "$folder/run" || exit 1 # the examples save files here
ln -s "$here/../../examples" examples # some examples read files relative to the root of the repository
status=0
for entry; do
  program=${entry%:*}
  if [[ $entry == *:* ]]; then echo "@@ ${entry##*:}"; else program=$entry; fi >>"$folder/output"
  "$program" >>"$folder/output" 2>"$folder/errors"
  code=$?
  if [[ $code -ne 0 ]]; then
    echo "$page${entry##"$program"}: exit $code" >&2
    cat "$folder/errors" >&2
    tail -20 "$folder/output" >&2
    status=1
  fi
done
awk -v page="$page" -v onednn="$onednn" -f "$here/compare.awk" "$expected" actual=1 "$folder/output" || status=1
exit $status
