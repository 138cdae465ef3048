#!/usr/bin/env bash
# A training moves its batches to the device and nothing else: runs an example with few steps and with
# more, and compares the bytes that the additional steps moved with what they should.
#   example_transfers.sh BYTES-A-STEP FEW MORE program [argument ... with % for the number of steps]
# `few` and `more` may be F:S, where % becomes F (epochs, say) and S is the number of steps that makes.
set -uo pipefail
bytes=$1 few=$2 more=$3
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1 # what it saves

moved=()
for steps in "$few" "$more"; do
  rows=$folder/rows_${#moved[@]}
  VOLTA_TRANSFERS=$rows "${@//%/${steps%%:*}}" >output 2>&1 || { code=$?; cat output; echo "exit $code"; exit 1; }
  cat "$rows"
  # What is moved because a program forgot to say where.
  if awk -F '\t' '$6 ~ /^(mixed devices|placement)/ { print; found = 1 } END { exit !found }' "$rows"; then
    exit 1
  fi
  moved+=("$(awk -F '\t' '$1 == "to" { sum += $3 } END { print sum + 0 }' "$rows")")
done
steps=$((${more##*:} - ${few##*:}))
each=$(((moved[1] - moved[0]) / steps))
echo "$((moved[1] - moved[0])) bytes more for $steps steps more: $each a step, wanted $bytes"
[ $((each * steps)) -eq $((moved[1] - moved[0])) ] && [ "$each" -eq "$bytes" ]
