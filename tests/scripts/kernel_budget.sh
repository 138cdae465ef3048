#!/usr/bin/env bash
# Counts the kernels that several test runs listed (VOLTA_TEST_KERNELS, kernel_list_test.cpp), and fails if more than
# LIMIT distinct kernels were compiled for OpenCL.   kernel_budget.sh LIMIT LIST...
set -euo pipefail
limit=$1
shift
for list in "$@"; do
  [ -f "$list" ] || { echo "$list is not there: the test that writes it has to run first"; exit 1; }
  echo "$(basename "$list"): $(awk '$1 == "opencl"' "$list" | wc -l)"
done
count=$(awk '$1 == "opencl" {print $2}' "$@" | sort -u | wc -l)
echo "distinct kernels compiled for OpenCL: $count (at most $limit)"
[ "$count" -le "$limit" ]
