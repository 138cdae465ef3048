#!/usr/bin/env bash
# Checks that the folders of src include each other only as src/layers.txt allows, and that the check finds violations.
#   layers.sh SOURCE-FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
check() { # FILE...: files to read besides those of src
  find . "$@" \( -name '*.h' -o -name '*.cpp' -o -name '*.def' \) -print0 | sort -z |
    xargs -0 awk -f "$here/layers.awk" layers.txt
}
check

# The check must find a violation: a lower layer that includes a higher one, in a copy.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r . "$copy/src"
cd "$copy/src"
echo '#include "runtime/runner.h"' >>core/shape.cpp
if found=$(check); then
  echo 'layers.sh: an include from core of runtime was not found' >&2
  exit 1
fi
[[ $found == *'core may not include runtime:'* ]] || { echo "layers.sh: $found" >&2; exit 1; }
