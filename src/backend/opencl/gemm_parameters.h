// Parameters of CLBlast's matrix product for devices that it has none of its own for.
#pragma once

#include "backend/opencl/device_info.h"

namespace volta::opencl {

// Before the first product on the device.
void set_gemm_parameters(const DeviceInfo& device);

}  // namespace volta::opencl
