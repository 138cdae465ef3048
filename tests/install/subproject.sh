#!/usr/bin/env bash
# Configures Volta inside another project, whose CMakeLists.txt has the checks: once with the defaults, once with
# Volta's own installation, and once for a project that builds static libraries. Nothing is built.
source "$(dirname "$0")/common.sh"

targets=volta
for backend in cuda opencl; do
  if built $backend; then targets+=";volta_$backend"; fi
done
inside() { # build folder, options
  quietly configure "$VOLTA_SOURCE/tests/install/subproject" "$1" -DCMAKE_CXX_COMPILER="$VOLTA_COMPILER" \
    -DFETCHCONTENT_SOURCE_DIR_VOLTA="$VOLTA_SOURCE" -Dexpected_targets="$targets" -Dshared="$shared" "${VOLTA_OPTIONS[@]}" "${@:2}"
}
read -ra VOLTA_OPTIONS <<<"$VOLTA_BACKEND_OPTIONS"

shared=ON
inside "$work/plain"
grep -q '^CMAKE_BUILD_TYPE:[A-Z]*=$' "$work/plain/CMakeCache.txt" || fail 'Volta has chosen a build type'
if grep -q 'file(INSTALL' "$work/plain/_deps/volta-build/cmake_install.cmake"; then
  fail 'the project would install Volta'
fi

inside "$work/installing" -DVOLTA_INSTALL=ON
installs=$work/installing/_deps/volta-build/cmake_install.cmake
grep -q 'file(INSTALL' "$installs" || fail 'VOLTA_INSTALL=ON installs nothing'
if grep -o 'CMAKE_INSTALL_COMPONENT STREQUAL "[^"]*"' "$installs" | grep -v '"volta_'; then
  fail "components above may be taken for the project's own"
fi

shared=OFF
inside "$work/static" -DVOLTA_INSTALL=ON
