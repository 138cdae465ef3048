#!/usr/bin/env bash
# Checks that the library has the messages that docs/errors.md explains.
set -euo pipefail
cd "$(dirname "$0")/../.."
find src tools include \( -name '*.h' -o -name '*.cpp' -o -name '*.def' \) -print0 |
  xargs -0 awk -f tests/docs/literals.awk |
  awk -f tests/docs/messages.awk - classes=1 include/volta/error.h page=1 docs/errors.md
