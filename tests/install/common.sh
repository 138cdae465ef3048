# Code shared by the tests of installations. Their parameters are in the environment:
#   VOLTA_CMAKE, VOLTA_GENERATOR, VOLTA_COMPILER; VOLTA_SOURCE, VOLTA_BUILD (folders); VOLTA_VERSION;
#   VOLTA_COMPONENTS (those of the build, with spaces between)
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
abi=${VOLTA_VERSION%.*} # the SONAME has major and minor version

fail() {
  echo "$*" >&2
  exit 1
}

quietly() { # runs a command and prints its output only if it fails
  "$@" >"$work/log" 2>&1 || { cat "$work/log"; fail "failed: $*"; }
}

built() { # whether the build has a component
  [[ " $VOLTA_COMPONENTS " == *" $1 "* ]]
}

install_into() { # folder [component]
  quietly "$VOLTA_CMAKE" --install "$VOLTA_BUILD" --prefix "$1" ${2:+--component "$2"}
}

configure() { # source, build folder, options
  "$VOLTA_CMAKE" -S "$1" -B "$2" -G "$VOLTA_GENERATOR" "${@:3}"
}

files_in() { # files and links, sorted
  (cd "$1" && find . -mindepth 1 ! -type d -printf '%P\n' | LC_ALL=C sort)
}

# No file may have a folder of the build in its search path for libraries.
check_run_paths() {
  local file path
  while IFS= read -r file; do
    path=$(readelf -d "$file" | sed -n 's/.*R\(UN\)\?PATH).*\[\(.*\)\]/\2/p')
    [[ $path == "\$ORIGIN" || $path == "\$ORIGIN/../lib" ]] || fail "$file: looks for libraries in '$path'"
  done < <(find "$1" -type f \( -name 'libvolta*.so*' -o -path '*/bin/volta' \))
}

# Checks that the installed command prints the version and finds the devices of the installed backends.
check_command() {
  [[ $("$1" --version) == "volta $VOLTA_VERSION" ]] || fail "$1 --version: $("$1" --version)"
  "$1" info --json >"$work/info.json"
  grep -q '"device": "cpu"' "$work/info.json" || fail "$1 info: no CPU"
  if built opencl; then
    grep -q '"device": "opencl:0"' "$work/info.json" || { cat "$work/info.json"; fail "$1 info: no OpenCL device"; }
  fi
}
