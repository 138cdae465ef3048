// Waits for devices when the process ends: a driver that still compiles or runs a kernel while its
// static objects are destroyed crashes (PoCL does).
#pragma once

namespace volta {

// To be called after enqueuing work on a device that runs it asynchronously: when the main thread
// ends, it then waits for the devices before any static object is destroyed.
void wait_for_devices_at_exit();

// True once static objects, those of drivers among them, are being destroyed: only the CPU can
// still compute.
bool process_is_ending();

}  // namespace volta
