#!/usr/bin/env bash
# Checks that only project() in CMakeLists.txt has the full version, and that the major and minor versions in the
# documents are the current ones.
#   version.sh <source folder> <version>
set -euo pipefail
cd "$1"
version=$2
status=0

# Results of benchmarks name the measured version, and the history of changes names every version.
texts=(grep -rInE --exclude-dir=.git --exclude-dir=.deps --exclude-dir=build --exclude-dir=runs
  --exclude-dir=results --exclude-dir=golden --exclude=mkdocs.yml --exclude=CHANGELOG.md)
if "${texts[@]}" -i "(volta|version)[^0-9]*\b${version//./\\.}\b" . | grep -v '^\./CMakeLists\.txt:[0-9]*:project(Volta VERSION '; then
  echo "the lines above have the version $version, which belongs into CMakeLists.txt alone" >&2
  status=1
fi
count=$(grep -cE "^project\(Volta VERSION ${version//./\\.}( |$)" CMakeLists.txt)
if [[ $count -ne 1 ]]; then
  echo "CMakeLists.txt does not say project(Volta VERSION $version ...)" >&2
  status=1
fi
if "${texts[@]}" -o 'find_package\(Volta [0-9][0-9.]*|^Version [0-9][0-9.]*[0-9]' . | grep -vE "[ ]${version%.*}$"; then
  echo "the lines above tell readers of another version than ${version%.*}" >&2
  status=1
fi
exit $status
