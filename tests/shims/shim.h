// The interface between a test and the library in front of a driver (opencl_shim.cpp,
// cuda_shim.cpp).
#pragma once

extern "C" {

// Lets call number `call` from now on of `function` (or of any function, if it is empty) return
// `status`, or `waiting_status` if the call waits for the device. 0 means that none fails; a
// negative number means that this call and all later ones fail.
void volta_shim_fail(const char* function, long call, int status, int waiting_status);
long volta_shim_calls();          // number of such calls since then
const char* volta_shim_failed();  // the function that failed, or ""
}
