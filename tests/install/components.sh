#!/usr/bin/env bash
# Installs the components one by one: each has its files, and together they are the whole installation. The command
# when it runs, and find_package when a project is configured, report a component that is absent.
source "$(dirname "$0")/common.sh"

echo '--- what each has'
declare -A expected
expected[runtime]="lib/libvolta.so.$abi lib/libvolta.so.$VOLTA_VERSION
  share/doc/libvolta$abi/Apache-2.0 share/doc/libvolta$abi/copyright"
expected[cuda]='lib/libvolta_cuda.so share/doc/volta-cuda/Apache-2.0 share/doc/volta-cuda/copyright'
expected[opencl]='lib/libvolta_opencl.so share/doc/volta-opencl/copyright'
expected[tools]='bin/volta share/doc/volta-tools/copyright'
config=$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$VOLTA_BUILD/CMakeCache.txt")
expected[dev]="lib/libvolta.so lib/pkgconfig/volta.pc share/doc/volta-dev/copyright
  lib/cmake/Volta/VoltaConfig.cmake lib/cmake/Volta/VoltaConfigVersion.cmake
  lib/cmake/Volta/VoltaTargets.cmake lib/cmake/Volta/VoltaTargets-${config,,}.cmake
  $(cd "$VOLTA_SOURCE" && find include/volta -name '*.h')"
for component in $VOLTA_COMPONENTS; do
  install_into "$work/$component" "$component"
  # shellcheck disable=SC2086 # the list is split into words on purpose
  diff <(printf '%s\n' ${expected[$component]} | LC_ALL=C sort) <(files_in "$work/$component") ||
    fail "component $component does not have what it should (< expected, > installed)"
done
install_into "$work/all"
diff <(for component in $VOLTA_COMPONENTS; do files_in "$work/$component"; done | LC_ALL=C sort) \
  <(files_in "$work/all") || fail 'the components together are not the installation'

if built tools; then
  echo '--- the command without backends'
  install_into "$work/runtime" tools
  command=$work/runtime/bin/volta
  "$command" info --json >"$work/info.json"
  for backend in cuda opencl; do
    grep -q "libvolta_$backend.so not found beside libvolta" "$work/info.json" ||
      fail "volta info does not say that libvolta_$backend.so is not there"
  done
  if built opencl; then
    install_into "$work/runtime" opencl
    check_command "$command"
  fi
fi

echo '--- find_package'
install_into "$work/dev" runtime
mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.25)
project(Finder LANGUAGES NONE)
find_package(Volta ${wanted})
message(STATUS "found: ${Volta_FOUND} cuda: ${Volta_cuda_FOUND} opencl: ${Volta_opencl_FOUND}")
PROJECT
# look_for <folder> <text of the output> <arguments of find_package>: configures, and may fail to.
look_for() {
  local words
  rm -rf "$work/found"
  configure "$work/project" "$work/found" -DCMAKE_PREFIX_PATH="$work/$1" -Dwanted="$3" >"$work/log" 2>&1 || true
  words=$(tr -s ' \n' ' ' <"$work/log") # CMake wraps lines
  [[ $words == *"$2"* ]] || { cat "$work/log"; fail "find_package(Volta ${3//;/ }) did not say: $2"; }
}
look_for dev 'found: 1 cuda: FALSE opencl: FALSE' "$abi;REQUIRED"
look_for dev 'found: 1 cuda: FALSE opencl: FALSE' 'REQUIRED;OPTIONAL_COMPONENTS;opencl'
look_for dev "The component opencl of Volta $VOLTA_VERSION is not installed: there is no $work/dev/lib/libvolta_opencl.so" \
  'REQUIRED;COMPONENTS;opencl'
look_for dev 'found: 0' 'COMPONENTS;opencl'
look_for dev 'Volta has no component vulkan; it has cuda, opencl and tools.' 'REQUIRED;COMPONENTS;vulkan'
look_for dev "version: $VOLTA_VERSION" "$((${VOLTA_VERSION%%.*} + 1));REQUIRED"
for backend in cuda opencl; do
  if built $backend; then
    look_for all "$backend: TRUE" "REQUIRED;COMPONENTS;$backend"
  fi
done
