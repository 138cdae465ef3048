#!/usr/bin/env bash
# Downloads the headers of cuDNN's frontend from PyPI into .deps/ if CUDA and cuDNN are installed. Convolutions
# and attention on CUDA are built with them. The script prints nothing if there is nothing to do. Without the
# headers the backend is still built, and compiles convolutions to its own kernels.
set -euo pipefail

version=1.32.0
folder=$(cd "$(dirname "$0")/.." && pwd)/.deps/cudnn-frontend
[[ -e $folder/include/cudnn_frontend.h ]] && exit 0

has() { # a header in one of the usual places
  for place in "${CUDA_PATH-}" "${CUDA_HOME-}" /usr/local/cuda /opt/cuda /usr /usr/local; do
    if [[ -n $place && -e $place/include/$1 ]]; then return 0; fi
  done
  [[ -e /usr/include/x86_64-linux-gnu/$1 ]]
}
has cublasLt.h && has cudnn.h || exit 0

without() {
  echo "setup: $1; the CUDA backend is built without cuDNN (its frontend's headers may be put into .deps/cudnn-frontend/include by hand)"
  exit 0
}
python3 -m pip --version >/dev/null 2>&1 || without 'python3 with pip is not here'

echo "setup: fetching the headers of cuDNN's frontend $version"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
  -d "$temporary" "nvidia-cudnn-frontend==$version" || without 'PyPI could not be reached'
python3 -m zipfile -e "$temporary"/*.whl "$temporary/wheel"
mkdir -p "$folder"
cp -r "$temporary/wheel/include" "$folder/include.new"
mv "$folder/include.new" "$folder/include"
