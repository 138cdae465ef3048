#!/usr/bin/env bash
# Counts by device the conformance cases that test runs listed in a folder (conformance_cases_test.cpp), and fails if
# there are fewer than LEAST in all: count_cases.sh FOLDER LEAST
set -euo pipefail
sort -u "$1"/*.txt | awk -v least="$2" '
  { ++by_device[$1]; ++all }
  END {
    for (device in by_device) printf "conformance cases on %s: %d\n", device, by_device[device]
    printf "conformance cases in all: %d, at least %d\n", all, least
    exit all < least
  }'
