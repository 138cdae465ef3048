// The device the suite runs on: --device=cpu|cuda|opencl..., or VOLTA_TEST_DEVICE; the CPU by
// default.
#pragma once

#include "volta/device.h"

volta::Device test_device();
