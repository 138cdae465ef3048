#!/usr/bin/env bash
# Installs a build into a folder of its own, moves it, and builds a project outside the tree against it:
# once with find_package(Volta), once with pkg-config. Both programs must run.
#   run.sh <cmake> <build folder> <compiler> <generator> <version>
set -euo pipefail

cmake=$1
build=$2
compiler=$3
generator=$4
version=$5
source=$(cd "$(dirname "$0")" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix" # an installation may be moved as a whole

# A library must not carry the folders of the build.
while IFS= read -r library; do
  if readelf -d "$library" | grep -E 'R(UN)?PATH' | grep -v -F '[$ORIGIN]'; then
    echo "$library: runs with a path other than its own folder" >&2
    exit 1
  fi
done < <(find "$work/prefix" -name 'libvolta*.so' -type f)

if [[ -x $work/prefix/bin/volta ]]; then
  echo '--- the command'
  [[ $("$work/prefix/bin/volta" --version) == "volta $version" ]]
  "$work/prefix/bin/volta" info --json >/dev/null
fi

echo '--- find_package'
"$cmake" -S "$source" -B "$work/cmake" -G "$generator" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DVOLTA_WANTED_VERSION="$version" >"$work/log" || { cat "$work/log"; exit 1; }
"$cmake" --build "$work/cmake" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/cmake/user" "$version"

echo '--- pkg-config'
pc=$(find "$work/prefix" -name volta.pc)
export PKG_CONFIG_PATH=${pc%/*}
[[ $(pkg-config --modversion volta) == "$version" ]]
read -ra flags < <(pkg-config --cflags --libs volta)
"$compiler" -std=c++20 "$source/user.cpp" -o "$work/user" "${flags[@]}"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir volta) "$work/user" "$version"

echo '--- loaded while a program runs'
cat >"$work/plugin_host.cpp" <<'SOURCE'
#include <dlfcn.h>
#include <cstdio>
int main(int, char** arguments) {
  if (dlopen(arguments[1], RTLD_NOW) != nullptr) return 0;
  std::fprintf(stderr, "%s\n", dlerror());
  return 1;
}
SOURCE
"$compiler" "$work/plugin_host.cpp" -o "$work/plugin_host" -ldl
"$work/plugin_host" "$(find "$work/prefix" -name 'libvolta.so')"
