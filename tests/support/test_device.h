// The device of the test run: --device=cpu|cuda|opencl..., or VOLTA_TEST_DEVICE; the CPU by
// default.
#pragma once

#include <cstdlib>

#include "volta/device.h"

volta::Device test_device();

// If compiling a kernel takes a third of a second, cases that differ only in their combination are
// left to VOLTA_TEST_FULL=1 (make test-full) and to other devices.
inline bool thorough() {
  static const bool full = std::getenv("VOLTA_TEST_FULL") != nullptr;
  return full || test_device().type() != volta::DeviceType::opencl;
}
