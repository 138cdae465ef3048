// The fault that a test requested (shim.h), for the libraries in front of drivers.
#pragma once

#include <mutex>
#include <string>

#include "shims/shim.h"

namespace {

struct Fault {
  std::mutex mutex;
  std::string function;  // name of the function; empty for any
  long calls = 0, failing = 0;
  int status = 0, waiting_status = 0;
  std::string failed;
};
Fault& fault() {
  static auto* const state = new Fault;  // calls are made until the process ends
  return *state;
}

// Returns 0, or the status that the call should return.
int fails_now(const char* function, bool waits = false) {
  Fault& f = fault();
  const std::lock_guard guard(f.mutex);
  if (!f.function.empty() && f.function != function) return 0;
  ++f.calls;
  if (f.failing < 0 ? f.calls < -f.failing : f.calls != f.failing) return 0;
  f.failed = function;
  return waits ? f.waiting_status : f.status;
}

}  // namespace

extern "C" {

void volta_shim_fail(const char* function, long call, int status, int waiting_status) {
  Fault& f = fault();
  const std::lock_guard guard(f.mutex);
  f.function = function;
  f.calls = 0;
  f.failing = call;
  f.status = status;
  f.waiting_status = waiting_status;
  f.failed.clear();
}
long volta_shim_calls() {
  const std::lock_guard guard(fault().mutex);
  return fault().calls;
}
const char* volta_shim_failed() {
  const std::lock_guard guard(fault().mutex);
  return fault().failed.c_str();
}

}  // extern "C"
