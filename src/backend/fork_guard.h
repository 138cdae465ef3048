// Devices in forked processes.
#pragma once

#include "backend/registry.h"

namespace volta {

// Throws DeviceError if this process was forked after the device's driver had been loaded: the
// driver's threads do not exist here, and waiting for one would never end. The CPU is always
// usable.
void require_not_forked(const DeviceEntry& entry);
bool is_forked(const DeviceEntry& entry);
// Whether the driver of any family was loaded before the fork; this process then has the CPU only.
bool has_cpu_only();

}  // namespace volta
