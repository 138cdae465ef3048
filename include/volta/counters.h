// Counters of the library's work, for tests and explanations.
#pragma once

#include <cstdint>

#include "volta/device.h"
#include "volta/export.h"

namespace volta {

// Totals over all threads and devices since the process started or since reset_counters.
struct Counters {
  std::uint64_t nodes_recorded = 0;
  std::uint64_t submits = 0;  // plans run, whether built or replayed
  std::uint64_t plans_built = 0;
  // Plans put together from stretches that were planned before, because no two of a program's steps
  // were alike; and the stretches that were planned for them.
  std::uint64_t plans_linked = 0;
  std::uint64_t stretches_planned = 0;
  std::uint64_t compilations =
      0;  // kernels compiled, by NVRTC, OpenCL or the CPU executor's preparation
  std::uint64_t kernels_loaded = 0;  // kernels taken from the disk cache instead
  std::uint64_t timings = 0;         // candidates timed to find the fastest
  std::uint64_t launches = 0;        // kernels run, including every node of a replayed graph
  std::uint64_t library_calls = 0;   // products and convolutions that a library ran
  std::uint64_t graph_launches = 0;  // whole plans replayed as one CUDA graph
  std::uint64_t transfers = 0;       // copies between host and device, or between devices
  std::uint64_t bytes_to_device = 0;
  std::uint64_t bytes_to_host = 0;
  std::uint64_t allocations = 0;  // requests of a pool to its backend for memory
};

VOLTA_API Counters counters();
VOLTA_API void reset_counters();

// Memory of one device, in bytes.
struct MemoryStats {
  // The device's memory pool.
  std::uint64_t in_use = 0;    // held by tensors and plans
  std::uint64_t reserved = 0;  // allocated from the device, in use or cached
  std::uint64_t peak = 0;      // the largest in_use since reset_peak_memory
  std::uint64_t limit = 0;     // 0 if there is no limit

  // Caches outside the pool, so that known steps need no preparation. Bytes are estimates.
  std::uint64_t cached_plans = 0;       // the number of plans
  std::uint64_t plan_bytes = 0;         // host memory of plans
  std::uint64_t plan_device_bytes = 0;  // device memory of plans: arguments, tables, slots
  std::uint64_t grouping_bytes = 0;     // groupings, from which plans of other sizes are built
  std::uint64_t kernel_bytes = 0;       // compiled kernels
  std::uint64_t library_bytes = 0;      // what oneDNN, cuBLASLt and cuDNN have prepared
  std::uint64_t cache_limit = 0;        // limit for cache_bytes() and for plan_device_bytes

  // The host memory of the caches.
  std::uint64_t cache_bytes() const {
    return plan_bytes + grouping_bytes + kernel_bytes + library_bytes;
  }
};

VOLTA_API MemoryStats memory_stats(Device device);
VOLTA_API void reset_peak_memory(Device device);
VOLTA_API void set_memory_limit(Device device, std::uint64_t bytes);  // 0 removes the limit
// Evicts the plans used longest ago whenever the caches hold more than this; 512 MiB at first.
VOLTA_API void set_cache_limit(Device device, std::uint64_t bytes);
// Returns cached memory to the device, and drops the plans and what was prepared for them.
VOLTA_API void empty_cache(Device device);

}  // namespace volta
