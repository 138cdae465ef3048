// The table of backends and devices. Nothing is probed before a device is first named. Loaded
// backends stay until the process ends, because at exit the drivers may be gone before us.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/pinned_cache.h"
#include "backend/pool.h"
#include "backend/streams.h"
#include "volta/device.h"
#include "volta/export.h"
#include "volta/system_info.h"

namespace volta {

namespace plan {
struct DeviceRuntime;  // runtime/device_runtime.h
}

// The runtime's caches for a device besides the pool, for memory_stats. Changed under the entry's
// lock, read by any thread.
struct CachedBytes {
  std::atomic<std::uint64_t> plans{0};         // the number of plans
  std::atomic<std::uint64_t> plan_host{0};     // bytes
  std::atomic<std::uint64_t> plan_device{0};   // bytes, outside the pool
  std::atomic<std::uint64_t> groupings{0};     // bytes
  std::atomic<std::uint64_t> kept_outputs{0};  // bytes of the pool
  std::atomic<std::uint64_t> limit{std::uint64_t{512} << 20};
};

// One device in use. Its address never changes.
struct DeviceEntry {
  Device device;
  Backend& backend;
  int index;  // the device's number within its backend
  Pool& pool;
  // Held while work is submitted, copied or waited for; copies in streams of their own do not need
  // it.
  std::recursive_mutex& lock;
  Streams& streams;                        // the order in which streams use memory
  PinnedCache& pinned;                     // host memory for copies
  plan::DeviceRuntime* runtime = nullptr;  // made and owned by runtime, used under the lock
  void (*trim)(DeviceEntry&) = nullptr;    // frees what the runtime keeps but does not need now
  // Evicts plans until the caches are within their limit; all plans if the flag is set.
  void (*evict)(DeviceEntry&, bool) = nullptr;
  CachedBytes cached = {};
};

// The entry of a device; loads its backend on first use. Throws DeviceError with the reason if the
// device is absent.
VOLTA_BACKEND_API DeviceEntry& device_entry(Device device);

// The message that says why a device cannot be used ("cuda:3: there are 1 CUDA devices"); empty if
// it can.
VOLTA_BACKEND_API std::string why_unusable(DeviceType type, int index);

// The backend of a family, loaded on first use; null if it is absent.
VOLTA_BACKEND_API Backend* backend_of(DeviceType type);

// The number of devices of a family, whose backend is loaded on first use; 0 if it is absent.
VOLTA_BACKEND_API int device_count(DeviceType type);

// Calls `body` for every device of the families named so far.
VOLTA_BACKEND_API void for_each_used_device(const std::function<void(DeviceEntry&)>& body);

// "cpu", "cuda" or "opencl".
VOLTA_BACKEND_API std::string_view family_name(DeviceType type);

// Makes a Device without checking that it is present.
struct DeviceAccess {
  static Device make(DeviceType type, int index) { return {type, index}; }
};

}  // namespace volta
