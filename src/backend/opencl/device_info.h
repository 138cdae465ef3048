// Which OpenCL devices there are: GPUs first, then accelerators, then CPUs. Looking opens no
// context.
#pragma once

#include <CL/cl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace volta::opencl {

struct DeviceInfo {
  cl_device_id id = nullptr;
  cl_platform_id platform = nullptr;
  cl_device_type type = 0;
  std::string name;
  std::string platform_name;
  std::string platform_version;
  std::string versions;  // device, driver and platform: what a compiled kernel depends on
  std::uint64_t memory = 0;
  std::size_t max_work_group = 0;
  bool has_f64 = false;
  bool rounds_division = false;  // can divide and take roots in f32 with correct rounding

  bool is_gpu() const { return (type & CL_DEVICE_TYPE_GPU) != 0; }
};

// The usable devices: available, with a compiler, OpenCL 1.2 or later. $VOLTA_OPENCL_DEVICE keeps
// those whose platform or device name contains it (case ignored). If there are none, `why` says
// why.
std::vector<DeviceInfo> find_devices(std::string& why);

}  // namespace volta::opencl
