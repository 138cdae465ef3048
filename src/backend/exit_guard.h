// A program that ends while a device still works: drivers that are compiling or running a kernel
// when their static objects go crash (PoCL does).
#pragma once

namespace volta {

// After work was given to a device that does not finish it at once: when the main thread ends, it
// waits for the devices, before any static object goes.
void wait_for_devices_at_exit();

// Static objects go, those of drivers among them: devices other than the CPU can compute no more.
bool process_is_ending();

}  // namespace volta
