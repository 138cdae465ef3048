// Lists the OpenCL devices: GPUs first, then accelerators, then CPUs. Listing opens no context.
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
  std::string versions;  // of device, driver and platform, on which compiled kernels depend
  std::uint64_t memory = 0;
  std::size_t max_work_group = 0;
  bool has_f64 = false;
  bool rounds_division = false;  // supports correctly rounded division and square root in f32

  bool is_gpu() const { return (type & CL_DEVICE_TYPE_GPU) != 0; }
};

// The usable devices: available, with a compiler, OpenCL 1.2 or later. $VOLTA_OPENCL_DEVICE keeps
// only those whose platform or device name contains it (ignoring case). If there are none, `why`
// receives the reason.
std::vector<DeviceInfo> find_devices(std::string& why);

}  // namespace volta::opencl
