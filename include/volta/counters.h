// What the library did, counted: the guards of tests and the numbers behind explanations.
#pragma once

#include <cstdint>

#include "volta/device.h"
#include "volta/export.h"

namespace volta {

// Totals since the process started (or since reset_counters), over all threads and devices.
struct Counters {
  std::uint64_t nodes_recorded = 0;
  std::uint64_t submits = 0;  // plans run, built or replayed
  std::uint64_t plans_built = 0;
  std::uint64_t compilations =
      0;  // kernels compiled, by NVRTC, OpenCL or the CPU executor's preparation
  std::uint64_t kernels_loaded = 0;  // kernels taken from the disk cache instead
  std::uint64_t timings = 0;         // ways of doing something that were timed to find the fastest
  std::uint64_t launches = 0;        // kernels run, each node of a replayed graph included
  std::uint64_t library_calls = 0;   // products and convolutions run by a library
  std::uint64_t graph_launches = 0;  // whole plans replayed as one CUDA graph
  std::uint64_t transfers = 0;       // copies between host and device, or between devices
  std::uint64_t bytes_to_device = 0;
  std::uint64_t bytes_to_host = 0;
  std::uint64_t allocations = 0;  // times a pool asked its backend for memory
};

VOLTA_API Counters counters();
VOLTA_API void reset_counters();

// Memory of one device's pool, in bytes.
struct MemoryStats {
  std::uint64_t in_use = 0;    // held by tensors and plans
  std::uint64_t reserved = 0;  // taken from the device, in use or cached
  std::uint64_t peak = 0;      // the largest in_use since reset_peak_memory
  std::uint64_t limit = 0;     // 0: none
};

VOLTA_API MemoryStats memory_stats(Device device);
VOLTA_API void reset_peak_memory(Device device);
VOLTA_API void set_memory_limit(Device device, std::uint64_t bytes);  // 0 removes the limit
VOLTA_API void empty_cache(Device device);  // gives cached memory back to the device

}  // namespace volta
