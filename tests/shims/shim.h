// What a test tells the library that stands before a driver (opencl_shim.cpp, cuda_shim.cpp).
#pragma once

extern "C" {

// Of the calls from now on to `function` (or to any, if it is empty), number `call` returns
// `status`, or `waiting_status` if it is one that waits for the device. 0: none fails; below: that
// number and all after it do.
void volta_shim_fail(const char* function, long call, int status, int waiting_status);
long volta_shim_calls();          // such calls since then
const char* volta_shim_failed();  // the function that failed, or ""
}
