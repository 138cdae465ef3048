#!/usr/bin/env bash
# Moves an installation. The command must still run, and projects outside the tree, built against it by find_package
# and by pkg-config, must run from another folder on the devices of its backends.
source "$(dirname "$0")/common.sh"

install_into "$work/first"
mv "$work/first" "$work/prefix"
check_run_paths "$work/prefix"
for folder in "$VOLTA_BUILD" "$VOLTA_SOURCE/"; do
  if grep -rlF "$folder" "$work/prefix" >"$work/found"; then
    cat "$work/found"
    fail "these files name a folder of this machine, $folder"
  fi
done
mkdir "$work/elsewhere"
cd "$work/elsewhere"

if built tools; then
  echo '--- the command'
  check_command "$work/prefix/bin/volta"
fi

devices=(cpu)
if built opencl; then devices+=(opencl:0); fi

echo '--- find_package'
example=$VOLTA_SOURCE/examples/downstream/find_package
quietly configure "$example" "$work/cmake" -DCMAKE_CXX_COMPILER="$VOLTA_COMPILER" -DCMAKE_PREFIX_PATH="$work/prefix"
for backend in cuda opencl; do
  name=$([[ $backend == cuda ]] && echo CUDA || echo OpenCL)
  found=$(built $backend && echo TRUE || echo FALSE)
  grep -q "$name backend: $found" "$work/log" || { cat "$work/log"; fail "Volta_${backend}_FOUND is not $found"; }
done
quietly "$VOLTA_CMAKE" --build "$work/cmake"
for device in "${devices[@]}"; do
  "$work/cmake/line" "$device" | tee "$work/output"
  grep -q "^Volta $VOLTA_VERSION on " "$work/output" || fail 'another version of the library was loaded'
done

echo '--- pkg-config'
pc=$(find "$work/prefix" -name volta.pc)
export PKG_CONFIG_PATH=${pc%/*}
[[ $(pkg-config --modversion volta) == "$VOLTA_VERSION" ]] || fail "volta.pc has version $(pkg-config --modversion volta)"
read -ra flags < <(pkg-config --cflags --libs volta)
"$VOLTA_COMPILER" -std=c++20 "$example/main.cpp" -o "$work/line" "${flags[@]}" \
  "-Wl,-rpath,$(pkg-config --variable=libdir volta)"
"$work/line" "${devices[-1]}"

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
"$VOLTA_COMPILER" "$work/plugin_host.cpp" -o "$work/plugin_host" -ldl
"$work/plugin_host" "$(find "$work/prefix" -name 'libvolta.so')"
