// Enumerates platforms and devices.
#include "backend/opencl/device_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <iterator>
#include <utility>

#include "platform/env.h"

namespace volta::opencl {
namespace {

std::string text(cl_device_id device, cl_device_info what) {
  std::size_t bytes = 0;
  if (clGetDeviceInfo(device, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string result(bytes, '\0');
  if (clGetDeviceInfo(device, what, bytes, result.data(), nullptr) != CL_SUCCESS) return {};
  return result.c_str();
}

std::string text(cl_platform_id platform, cl_platform_info what) {
  std::size_t bytes = 0;
  if (clGetPlatformInfo(platform, what, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return {};
  std::string result(bytes, '\0');
  if (clGetPlatformInfo(platform, what, bytes, result.data(), nullptr) != CL_SUCCESS) return {};
  return result.c_str();
}

template <class T>
T number(cl_device_id device, cl_device_info what) {
  T result{};
  clGetDeviceInfo(device, what, sizeof(T), &result, nullptr);
  return result;
}

bool contains_ignoring_case(const std::string& text, const std::string& part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

// Whether a version such as "OpenCL 3.0 ..." is at least 1.2.
bool at_least_1_2(const std::string& version) {
  int major = 0, minor = 0;
  return std::sscanf(version.c_str(), "OpenCL %d.%d", &major, &minor) == 2 &&
         major * 10 + minor >= 12;
}

DeviceInfo describe(cl_platform_id platform, cl_device_id device) {
  DeviceInfo info;
  info.id = device;
  info.platform = platform;
  info.type = number<cl_device_type>(device, CL_DEVICE_TYPE);
  info.name = text(device, CL_DEVICE_NAME);
  info.platform_name = text(platform, CL_PLATFORM_NAME);
  info.platform_version = text(platform, CL_PLATFORM_VERSION);
  info.versions = fmt::format("{}; {}; {}", text(device, CL_DEVICE_VERSION),
                              text(device, CL_DRIVER_VERSION), info.platform_version);
  info.memory = number<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE);
  info.max_work_group = number<std::size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  info.has_f64 = contains_ignoring_case(text(device, CL_DEVICE_EXTENSIONS), "cl_khr_fp64") &&
                 platform::environment("VOLTA_OPENCL_F64") != "off";
  info.rounds_division = (number<cl_device_fp_config>(device, CL_DEVICE_SINGLE_FP_CONFIG) &
                          CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  return info;
}

bool usable(cl_device_id device) {
  return number<cl_bool>(device, CL_DEVICE_AVAILABLE) &&
         number<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE) &&
         at_least_1_2(text(device, CL_DEVICE_VERSION));
}

constexpr std::size_t kRanks = 3;

std::size_t rank(const DeviceInfo& info) {
  if (info.is_gpu()) return 0;
  return (info.type & CL_DEVICE_TYPE_CPU) != 0 ? 2 : 1;
}

}  // namespace

std::vector<DeviceInfo> find_devices(std::string& why) {
  cl_uint platform_count = 0;
  // The ICD loader reports a lack of drivers as an error status, not as a count of zero.
  if (clGetPlatformIDs(0, nullptr, &platform_count) != CL_SUCCESS || platform_count == 0) {
    why = "no OpenCL platform is installed (no driver is registered with the OpenCL loader)";
    return {};
  }
  std::vector<cl_platform_id> platforms(platform_count);
  clGetPlatformIDs(platform_count, platforms.data(), nullptr);

  const auto wanted = platform::environment("VOLTA_OPENCL_DEVICE");
  std::array<std::vector<DeviceInfo>, kRanks> ranked;
  std::string passed_over;
  for (cl_platform_id platform : platforms) {
    cl_uint count = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS ||
        count == 0)
      continue;
    std::vector<cl_device_id> devices(count);
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr) != CL_SUCCESS)
      continue;
    for (cl_device_id device : devices) {
      DeviceInfo info = describe(platform, device);
      const bool chosen = !wanted || contains_ignoring_case(info.name, *wanted) ||
                          contains_ignoring_case(info.platform_name, *wanted);
      if (chosen && usable(device)) {
        ranked[rank(info)].push_back(std::move(info));
      } else {
        passed_over += fmt::format("{}{} ({})", passed_over.empty() ? "" : ", ", info.name,
                                   info.platform_name);
      }
    }
  }
  std::vector<DeviceInfo> found;
  for (auto& devices : ranked) std::move(devices.begin(), devices.end(), std::back_inserter(found));
  if (found.empty()) {
    if (passed_over.empty()) {
      why = fmt::format("the {} OpenCL platform(s) installed have no device", platform_count);
    } else if (wanted) {
      why = fmt::format("no usable OpenCL device matches VOLTA_OPENCL_DEVICE={}; present: {}",
                        *wanted, passed_over);
    } else {
      why = fmt::format("no OpenCL device is available with a compiler and OpenCL 1.2; present: {}",
                        passed_over);
    }
  }
  return found;
}

}  // namespace volta::opencl
