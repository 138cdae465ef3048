#!/usr/bin/env bash
# What only a GPU can show, in one go: build, the test suite on cuda and on opencl, the step bench beside
# its peers. Results go to the folder given (default bench/results). Packages that the machine lacks may lie
# as .deb files in the folder VOLTA_DEBS.
#   scripts/gpu.sh [folder] [phase ...]      phases: build test opencl sanitize bench peers (default: all)
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:-bench/results}
shift || true
phases=${*:-build test opencl sanitize bench peers}
mkdir -p "$out"
has() { [[ " $phases " == *" $1 "* ]]; }
export VOLTA_CACHE_DIR=${VOLTA_CACHE_DIR:-$PWD/build/gpu/cache}

if has build; then
  if [ -n "${VOLTA_DEBS:-}" ]; then
    for deb in "$VOLTA_DEBS"/*.deb; do dpkg -x "$deb" /; done
    ldconfig
  fi
  driver=$(ldconfig -p | awk '/libnvidia-opencl.so.1/ {print $NF; exit}')
  if [ -n "$driver" ] && [ -w /etc ]; then
    mkdir -p /etc/OpenCL/vendors
    echo "$driver" > /etc/OpenCL/vendors/nvidia.icd
  fi
  cmake -S . -B build/gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DVOLTA_CUDA=ON > "$out/build.log" 2>&1 &&
    cmake --build build/gpu >> "$out/build.log" 2>&1 || { tail -40 "$out/build.log"; exit 1; }
  echo "built"
fi
if has test; then
  timeout 400 build/gpu/bin/volta_tests --device=cuda --gtest_brief=1 > "$out/test_cuda.log" 2>&1
  echo "tests on cuda: $(grep -E 'PASSED' "$out/test_cuda.log")"
  grep -E '^\[  FAILED' "$out/test_cuda.log" | sort -u | head -40
fi
if has opencl; then
  VOLTA_OPENCL_DEVICE=${VOLTA_OPENCL_DEVICE:-NVIDIA} timeout 300 build/gpu/bin/volta_tests --device=opencl \
    --gtest_brief=1 > "$out/test_opencl.log" 2>&1
  echo "tests on opencl: $(grep -E 'PASSED' "$out/test_opencl.log")"
  grep -E '^\[  FAILED' "$out/test_opencl.log" | sort -u | head -40
fi
if has sanitize; then
  timeout 200 compute-sanitizer --tool memcheck build/gpu/bin/volta_tests --device=cuda --gtest_brief=1 \
    --gtest_filter='Recording.O*:Donation.A*:Counts*:Determinism*' > "$out/sanitizer.log" 2>&1
  echo "memcheck: $(grep -E 'ERROR SUMMARY' "$out/sanitizer.log")"
fi
if has bench; then
  for tf32 in "" "--tf32"; do
    build/gpu/bench/volta_steps --device cuda:0 --workload all $tf32 --json "$out/steps_cuda${tf32/--/_}.json"
  done
  VOLTA_OPENCL_DEVICE=NVIDIA build/gpu/bench/volta_steps --device opencl:0 --workload all --json "$out/steps_opencl.json"
  build/gpu/examples/xor cuda:0
fi
if has peers; then
  timeout 250 python3 bench/peers/torch_steps.py --device cuda --json "$out/steps_torch.json" 2>&1 | tail -20
  timeout 100 python3 bench/peers/jax_steps.py --device cuda --json "$out/steps_jax.json" 2>&1 | tail -8
fi
