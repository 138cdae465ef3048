// Found by volta_clblast_search on an H200: CLBlast 1.5 knows no device of compute capability 9 and
// takes what suits an average of older ones, a fifth slower.
#include "backend/opencl/gemm_parameters.h"

#include <clblast.h>

#include <string>
#include <unordered_map>

#include "volta/log.h"

namespace volta::opencl {
namespace {

constexpr cl_device_info kComputeCapabilityMajor = 0x4000;  // cl_nv_device_attribute_query
constexpr cl_uint kMeasured = 9;

cl_uint compute_capability(cl_device_id device) {
  cl_uint major = 0;
  return clGetDeviceInfo(device, kComputeCapabilityMajor, sizeof major, &major, nullptr) ==
                 CL_SUCCESS
             ? major
             : 0;
}

using Parameters = std::unordered_map<std::string, std::size_t>;

void set(cl_device_id device, const char* kernel, const Parameters& parameters) {
  const auto status =
      clblast::OverrideParameters(device, kernel, clblast::Precision::kSingle, parameters);
  if (status == clblast::StatusCode::kSuccess) return;
  log(LogLevel::warning, std::string("opencl: CLBlast refuses parameters of ") + kernel +
                             " with status " + std::to_string(static_cast<int>(status)) +
                             "; products run with its own");
}

}  // namespace

void set_gemm_parameters(const DeviceInfo& device) {
  if (compute_capability(device.id) < kMeasured) return;
  // Products of fewer multiplications than the cube go to the kernel that neither pads nor
  // transposes.
  set(device.id, "GemmRoutine", {{"XGEMM_MIN_INDIRECT_SIZE", 1280}});
  set(device.id, "XgemmDirect",
      {{"KWID", 16},
       {"MDIMAD", 32},
       {"MDIMCD", 8},
       {"NDIMBD", 32},
       {"NDIMCD", 16},
       {"PADA", 1},
       {"PADB", 1},
       {"VWMD", 1},
       {"VWND", 1},
       {"WGD", 32}});
  set(device.id, "Xgemm",
      {{"GEMMK", 0},
       {"KREG", 1},
       {"KWG", 32},
       {"KWI", 8},
       {"MDIMA", 16},
       {"MDIMC", 16},
       {"MWG", 64},
       {"NDIMB", 16},
       {"NDIMC", 8},
       {"NWG", 128},
       {"SA", 1},
       {"SB", 1},
       {"STRM", 1},
       {"STRN", 0},
       {"VWM", 4},
       {"VWN", 8}});
}

}  // namespace volta::opencl
