#!/usr/bin/env bash
# Installs the Debian packages that a part of the project needs. Prints nothing if they are installed.
#   setup.sh demo|test|processors|bench|lint|full|package|pictures|docs
set -euo pipefail

demo=(
  cmake g++ ninja-build
  ccache # needed from the first build on, because adding the launcher later compiles everything again
  libdnnl-dev ocl-icd-opencl-dev # Debian's oneDNN package names the OpenCL loader without requiring it
  libcli11-dev libfmt-dev libhwy-dev nlohmann-json3-dev
  libjpeg-dev libpng-dev zlib1g-dev
)
test=(libbenchmark-dev libgtest-dev pkg-config pocl-opencl-icd)
docs=(mkdocs python3-pygments)
bench=(libbenchmark-dev)
lint=(clang-format-19 clang-tidy-19 libomp-19-dev)
full=(clang-19 libclang-rt-19-dev chromium)
package=(dpkg-dev file) # they find the packages that the libraries come from
pictures=(chromium fonts-inter optipng pngquant)

case ${1-} in
demo) wanted=("${demo[@]}") ;;
test | processors) wanted=("${demo[@]}" "${test[@]}" "${docs[@]}") ;;
bench) wanted=("${demo[@]}" "${bench[@]}") ;;
lint) wanted=("${demo[@]}" "${test[@]}" "${lint[@]}") ;; # clang-tidy reads what the tests include
full) wanted=("${demo[@]}" "${test[@]}" "${lint[@]}" "${full[@]}") ;;
package) wanted=("${demo[@]}" "${package[@]}") ;;
pictures) wanted=("${demo[@]}" "${test[@]}" "${pictures[@]}") ;;
docs) wanted=("${docs[@]}") ;;
*)
  echo "usage: $0 demo|test|processors|bench|lint|full|package|pictures|docs" >&2
  exit 2
  ;;
esac

installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

missing=()
if command -v dpkg-query >/dev/null; then
  for package in "${wanted[@]}"; do
    installed "$package" || missing+=("$package")
  done
else
  missing=("${wanted[@]}")
fi
frontend() { # headers for the CUDA backend; the documents do not need them
  if [[ $1 != docs ]]; then "$(dirname "$0")/cudnn_frontend.sh"; fi
}
if [[ ${#missing[@]} -eq 0 ]]; then
  frontend "$1"
  exit
fi

install=(apt-get install -y --no-install-recommends "${missing[@]}")

give_up() {
  cat >&2 <<END
setup: $1. Run this once, with the rights to install packages:
  apt-get update && ${install[*]}
On other systems, install the equivalents and build with: cmake --preset release && cmake --build --preset release
END
  exit 1
}

command -v apt-get >/dev/null || give_up 'apt-get is not here'
as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || give_up 'not root, and sudo is not here'
  as_root=(sudo)
  if [[ ! -t 0 ]]; then as_root=(sudo -n); fi # there is no terminal for a password
  "${as_root[@]}" true || give_up 'not root, and sudo refused'
fi

privileged() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@"
}

# A package without a candidate means that the lists are missing; a failed install, that they are old.
known() {
  [[ $(apt-cache policy "$@" | grep -c 'Candidate: [^(]') -eq $# ]]
}

echo "setup: installing ${missing[*]}"
known "${missing[@]}" || privileged apt-get update -q || give_up 'apt-get update failed'
privileged "${install[@]}" -q || { privileged apt-get update -q && privileged "${install[@]}" -q; } || give_up 'apt-get install failed'
frontend "$1"
