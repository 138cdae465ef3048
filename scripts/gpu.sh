#!/usr/bin/env bash
# Runs everything that needs a GPU: the build, the test suite on cuda and on opencl, random graphs under the
# sanitizers, and the benchmarks of steps, single operations and layers with those of the peers. Results go to the
# given folder (default bench/results). The folder VOLTA_DEBS may have missing packages as .deb files.
# VOLTA_RANDOM_GRAPHS=first:count selects the random graphs (default 0:500).
#   scripts/gpu.sh [folder] [phase ...]      default: all
#   phases: build test opencl sanitize random bench ops layers peers peerops peerlayers table
set -uo pipefail
cd "$(dirname "$0")/.." || exit
out=${1:-bench/results}
shift || true
phases=${*:-build test opencl sanitize random bench ops layers peers peerops peerlayers table}
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
if has random; then
  export VOLTA_RANDOM_GRAPHS=${VOLTA_RANDOM_GRAPHS:-0:500}
  for tool in plain memcheck racecheck; do
    check=()
    [ "$tool" = plain ] || check=(compute-sanitizer --tool "$tool" --error-exitcode 9)
    timeout 300 "${check[@]}" build/gpu/bin/volta_tests --device=cuda --gtest_brief=1 \
      --gtest_filter='*RandomGraphs*' > "$out/random_$tool.log" 2>&1
    echo "random graphs, $tool, $VOLTA_RANDOM_GRAPHS: exit $?," \
      "$(grep -E 'PASSED|ERROR SUMMARY|RACECHECK SUMMARY' "$out/random_$tool.log" | tr '\n' ' ')"
    grep -E '^\[  FAILED' "$out/random_$tool.log" | sort -u | head -10
  done
fi
if has bench; then
  for tf32 in "" "--tf32"; do
    build/gpu/bench/volta_steps --device cuda:0 --workload all $tf32 --json "$out/steps_cuda${tf32/--/_}.json"
  done
  VOLTA_OPENCL_DEVICE=NVIDIA build/gpu/bench/volta_steps --device opencl:0 --workload all --json "$out/steps_opencl.json"
  for device in cuda opencl; do
    echo "first step of a process, $device"
    VOLTA_OPENCL_DEVICE=NVIDIA python3 bench/first_step.py --program build/gpu/bench/volta_steps \
      --device "$device:0" --json "$out/first_step_$device.json"
  done
  build/gpu/examples/xor cuda:0
fi
if has ops; then
  for device in cuda opencl; do
    VOLTA_OPENCL_DEVICE=NVIDIA timeout 150 build/gpu/bench/volta_ops --device "$device:0" \
      --json "$out/ops_$device.json"
  done
fi
if has layers; then
  for device in cuda opencl; do
    VOLTA_OPENCL_DEVICE=NVIDIA timeout 300 build/gpu/bench/volta_layers --device "$device:0" \
      --json "$out/layers_$device.json"
  done
fi
if has peers; then
  timeout 250 python3 bench/peers/torch_steps.py --device cuda --json "$out/steps_torch.json" 2>&1 | tail -20
  timeout 100 python3 bench/peers/jax_steps.py --device cuda --json "$out/steps_jax.json" 2>&1 | tail -8
fi
if has peerops; then
  timeout 300 python3 bench/peers/torch_ops.py --device cuda --json "$out/ops_torch.json" 2>&1 | tail -60
fi
if has peerlayers; then
  for variant in eager compile; do
    timeout 500 python3 bench/peers/torch_layers.py --device cuda --variant $variant \
      --json "$out/layers_torch_$variant.json" 2>&1 | tail -80
  done
fi
if has table; then
  shopt -s nullglob
  python3 bench/compare.py "$out"/{steps,first_step,ops,layers}_*.json > "$out/table.txt" && cat "$out/table.txt"
fi
