// The core's table of backends and devices. Nothing is probed before a device is first mentioned,
// and what was loaded stays until the process ends: at exit the drivers may be gone before us.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "backend/backend.h"
#include "backend/lanes.h"
#include "backend/pinned_cache.h"
#include "backend/pool.h"
#include "volta/device.h"
#include "volta/export.h"
#include "volta/system_info.h"

namespace volta {

// One device in use. Its address never changes.
struct DeviceEntry {
  Device device;
  Backend& backend;
  int index;  // of the device within its backend
  Pool& pool;
  // Held while work is submitted, copied or waited for; what goes in lanes of its own needs it not.
  std::recursive_mutex& lock;
  Lanes& lanes;                          // in which order work of several lanes uses memory
  PinnedCache& pinned;                   // host memory for copies
  void* plans = nullptr;                 // the runner's state for the device, under the lock
  void (*trim)(DeviceEntry&) = nullptr;  // gives back what the runner keeps and does not need now
};

// The entry of a device, loading its backend on first use; throws DeviceError saying why it is
// absent.
VOLTA_BACKEND_API DeviceEntry& device_entry(Device device);

// Why one device cannot be used, as a whole message ("cuda:3: there are 1 CUDA devices"); empty
// when it can.
VOLTA_BACKEND_API std::string why_unusable(DeviceType type, int index);

// The backend of a family, loaded on first use; null when it is absent.
VOLTA_BACKEND_API Backend* backend_of(DeviceType type);

// The number of devices of a family, loading its backend on first use; 0 when it is absent.
VOLTA_BACKEND_API int device_count(DeviceType type);

// Every device of the families that were mentioned so far.
VOLTA_BACKEND_API void for_each_used_device(const std::function<void(DeviceEntry&)>& body);

// "cpu", "cuda" or "opencl".
VOLTA_BACKEND_API std::string_view family_name(DeviceType type);

// A Device value with no check that it is present.
struct DeviceAccess {
  static Device make(DeviceType type, int index) { return {type, index}; }
};

}  // namespace volta
