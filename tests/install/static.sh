#!/usr/bin/env bash
# Builds the static library with the backends of this build, installs it, and links it into a program that needs no
# libvolta.so and still loads the backends. Nearly all of its objects are those of the shared library, so a compiler
# cache has them. Without a cache only `ctest -C Full` builds it (VOLTA_TEST_FULL=1).
source "$(dirname "$0")/common.sh"

# The folder is as deep as the build's own, so that the cache finds the files by the same relative paths.
folder=$VOLTA_BUILD-static
read -ra options <<<"$VOLTA_BACKEND_OPTIONS"
quietly configure "$VOLTA_SOURCE" "$folder" -DCMAKE_CXX_COMPILER="$VOLTA_COMPILER" -DCMAKE_BUILD_TYPE="$VOLTA_CONFIG" \
  -DBUILD_SHARED_LIBS=OFF -DVOLTA_TESTS=OFF -DVOLTA_BENCH=OFF -DVOLTA_EXAMPLES=OFF -DVOLTA_CLI=OFF "${options[@]}"
if ! command -v ccache >/dev/null && [[ -z ${VOLTA_TEST_FULL-} ]]; then
  echo 'configured only: there is no ccache, and compiling the library again takes minutes'
  exit 0
fi
quietly "$VOLTA_CMAKE" --build "$folder"
quietly "$VOLTA_CMAKE" --install "$folder" --prefix "$work/first"
mv "$work/first" "$work/prefix"
[[ -n $(find "$work/prefix" -name libvolta.a) ]] || fail 'there is no libvolta.a'
[[ -z $(find "$work/prefix" -name 'libvolta.so*') ]] || fail 'there is a libvolta.so'

devices=(cpu)
if built opencl; then devices+=(opencl:0); fi
mkdir "$work/elsewhere" "$work/prefix/bin"
cd "$work/elsewhere"
# Backends are found from the folder of the program, also if the program was started by PATH.
check_program() {
  local device
  mv "$1" "$work/prefix/bin/line"
  if ldd "$work/prefix/bin/line" | grep libvolta; then fail 'the program needs a library of Volta'; fi
  for device in "${devices[@]}"; do
    PATH=$work/prefix/bin:$PATH line "$device" | tee "$work/output"
    grep -q "^Volta $VOLTA_VERSION on " "$work/output" || fail 'the program has another version of Volta'
  done
}

echo '--- find_package'
example=$VOLTA_SOURCE/examples/downstream/find_package
quietly configure "$example" "$work/cmake" -DCMAKE_CXX_COMPILER="$VOLTA_COMPILER" -DCMAKE_PREFIX_PATH="$work/prefix"
if built opencl; then
  grep -q 'OpenCL backend: TRUE' "$work/log" || { cat "$work/log"; fail 'Volta_opencl_FOUND is not TRUE'; }
fi
quietly "$VOLTA_CMAKE" --build "$work/cmake"
check_program "$work/cmake/line"

echo '--- pkg-config'
pc=$(find "$work/prefix" -name volta.pc)
export PKG_CONFIG_PATH=${pc%/*}
eval "flags=($(pkg-config --cflags --libs volta))" # pkg-config quotes the patterns
# shellcheck disable=SC2154 # flags is set above
quietly "$VOLTA_COMPILER" -std=c++20 "$example/main.cpp" -o "$work/line" "${flags[@]}"
check_program "$work/line"
