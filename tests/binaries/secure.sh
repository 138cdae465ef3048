#!/usr/bin/env bash
# A program that runs with the rights of another group takes nothing from the environment of its caller: no
# folders to load libraries from, no cache of compiled kernels. Skipped (77) where such a program cannot be made.
#   secure.sh PROGRAM
set -euo pipefail
program=$1
export VOLTA_BACKEND_PATH=/somewhere VOLTA_CACHE_DIR=/somewhere HOME=/somewhere XDG_CACHE_HOME=/somewhere
[[ $("$program") == read ]] || { echo 'without more rights the environment is not read'; exit 1; }

copy=$(mktemp -d "$(dirname "$program")/secure_XXXXXX")
trap 'rm -rf "$copy"' EXIT
cp "$program" "$copy/program"
chgrp 12345 "$copy/program" 2>/dev/null && chmod g+s "$copy/program" || { echo 'skipped: needs root'; exit 77; }
status=0
answer=$("$copy/program" secure) || status=$?
if ((status == 77)); then echo 'skipped: the file system ignores set-group-ID'; exit 77; fi
((status == 0)) || { echo "ended with $status"; exit 1; }
[[ $answer == 'not read' ]] || { echo "with the rights of another group the environment is $answer"; exit 1; }
