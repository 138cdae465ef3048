#!/usr/bin/env bash
# Checks that the headers declare the names in the tables for users of PyTorch, of the original, and of modules.
set -euo pipefail
cd "$(dirname "$0")/../.."
find include -name '*.h' -print0 | sort -z | xargs -0 sh -c 'awk -f tests/docs/calls.awk "$@" page=1 docs/pytorch.md docs/names.md docs/modules.md' sh
