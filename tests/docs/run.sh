#!/usr/bin/env bash
# Runs the examples of a page and compares what they print with the page.
#   run.sh <page> <expected> <1 where products are oneDNN's, else 0> <program, or program:LINE> ...
# A program with a line is one of the page's own; the other has its fragments, and says which it runs.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
page=$1 expected=$2 onednn=$3
shift 3

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/run" && cd "$folder/run" || exit 1 # what they save
ln -s "$here/../../examples" examples # some read a file as if in the root of the repository
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
