// Devices in forked processes.
#pragma once

#include "core/registry.h"

namespace volta {

// Throws DeviceError where the process was forked after the device's driver had been loaded: the
// driver's threads are not in this process, and waiting for one would take forever. The CPU is
// always usable.
void require_not_forked(const DeviceEntry& entry);
bool is_forked(const DeviceEntry& entry);
// Of the devices of any family: then this process has the CPU only.
bool has_cpu_only();

}  // namespace volta
