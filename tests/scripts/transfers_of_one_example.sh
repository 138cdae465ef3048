#!/usr/bin/env bash
# Checks that a training only moves its batches to the device and reads back the numbers it prints. The script runs one
# example with few steps and with more steps, and examines the transfers of the additional steps.
#   transfers_of_one_example.sh BYTES NUMBERS FEW MORE program [argument ... with % for the number of steps]
# A step moves exactly BYTES to the device, none of them because of mixed devices or automatic placement. It reads back
# numbers of at most 8 bytes (a loss, a count of correct answers), no more than NUMBERS per step on average, which may
# be 1/50.
set -uo pipefail
bytes=$1 numbers=$2 few=$3 more=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1 # the example saves files here

for steps in "$few" "$more"; do
  rows=$folder/rows_$steps
  VOLTA_TRANSFERS=$rows "${@//%/$steps}" >output 2>&1 || { code=$?; cat output; echo "exit $code"; exit 1; }
  cat "$rows"
  if awk -F '\t' '$6 ~ /^(mixed devices|placement)/ { print; found = 1 } END { exit !found }' "$rows"; then
    exit 1
  fi
done
# Rows of both runs are matched by direction, reason and source location. Rows of the second run alone are new.
awk -F '\t' -v steps=$((more - few)) -v bytes="$bytes" -v numbers="$numbers" '
  BEGIN { split(numbers, ratio, "/"); allowed = steps * ratio[1] / (ratio[2] ? ratio[2] : 1) }
  FNR == 1 { ++file; next }
  { row = $1 FS $6 FS $7; rows[row]; sum[row, file] += $3; count[row, file] += $4 }
  END {
    for (row in rows) {
      more_bytes = sum[row, 2] - sum[row, 1]; more_count = count[row, 2] - count[row, 1]
      if (row ~ /^to\t/) { to += more_bytes; continue }
      back += more_count
      if (more_bytes > 0 && more_bytes > 8 * more_count) { print "more than numbers: " more_bytes " bytes in " more_count " copies\t" row; wrong = 1 }
    }
    wrong = wrong || to != steps * bytes || back > allowed
    printf "%d steps more: %d bytes more to the device, wanted %d; %d numbers more from it, allowed %d\n",
      steps, to, steps * bytes, back, allowed
    exit wrong
  }' "$folder/rows_$few" "$folder/rows_$more"
