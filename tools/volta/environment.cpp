// The table of environment variables.
#include "environment.h"

namespace volta::cli {

const std::vector<EnvironmentVariable>& environment_variables() {
  static const std::vector<EnvironmentVariable> table = {
      {"VOLTA_LOG", "library", "level of messages: debug, info, warning, error, off"},
      {"VOLTA_NUM_THREADS", "library", "threads of the CPU backend"},
      {"VOLTA_DEVICE", "library",
       "where programs run: cpu, cuda:N, opencl:N, gpu, or auto: by cost"},
      {"VOLTA_FALLBACK", "library", "cpu: absent GPUs are replaced by the CPU, with a warning"},
      {"VOLTA_BACKEND_PATH", "library", "more folders with backend libraries"},
      {"VOLTA_CACHE_DIR", "library", "where compiled kernels are kept"},
      {"VOLTA_CHECK", "library",
       "cpu: the CPU repeats every step of a GPU; errors name what differs"},
      {"VOLTA_EAGER", "library", "1 or on: every operation is evaluated at its call"},
      {"VOLTA_DUMP_KERNELS", "library", "a folder for every generated kernel, as text"},
      {"VOLTA_DUMP_PASSES", "library",
       "a folder for the planner's values, as text: after each pass"},
      {"VOLTA_TRANSFERS", "library",
       "1, or a file: what was moved between host and devices, at the end"},
      {"VOLTA_TUNE", "library",
       "seconds to time schedules for; read: none; off: nothing timed is used"},
      {"VOLTA_ONEDNN", "library", "off: the CPU computes without oneDNN"},
      {"VOLTA_CPU_ISA", "library", "avx512, avx2, sse4, ssse3: the CPU uses no later instructions"},
      {"XDG_CACHE_HOME", "library", "without VOLTA_CACHE_DIR: kernels are kept in volta/ there"},
      {"HOME", "library", "without both: kernels are kept in .cache/volta there"},
      {"VOLTA_CUDA_LIBS", "cuda", "folders searched first for NVRTC, cuBLASLt and cuDNN"},
      {"VOLTA_CUDA_DRIVER", "cuda", "the driver's library, instead of libcuda.so.1"},
      {"VOLTA_CUDNN", "cuda", "off: CUDA computes without cuDNN"},
      {"CUDA_HOME", "cuda", "the CUDA toolkit, searched after the system's own places"},
      {"NVTX_INJECTION64_PATH", "cuda", "set by NVIDIA's tools, which then see ProfileRanges"},
      {"VOLTA_OPENCL_DEVICE", "opencl", "only devices whose name or platform contains this"},
      {"VOLTA_OPENCL_OPTIONS", "opencl", "more options for the OpenCL compiler"},
      {"VOLTA_OPENCL_F64", "opencl", "off: devices count as without f64"},
      {"COLUMNS", "command", "width of tables and help; default the terminal's own"},
      {"NO_COLOR", "command", "if set, no colours"},
      {"TERM", "command", "dumb: no colours"},
      {"LC_ALL", "command", "the character set; other than UTF-8: ASCII only"},
      {"LC_CTYPE", "command", "without LC_ALL: the same"},
      {"LANG", "command", "without both: the same"},
      {"OMP_NUM_THREADS", "OpenMP", "default number of threads"},
      {"OMP_WAIT_POLICY", "OpenMP", "passive: idle threads sleep"},
      {"DNNL_MAX_CPU_ISA", "oneDNN", "the latest instructions that oneDNN uses"},
      {"OCL_ICD_VENDORS", "OpenCL loader", "which OpenCL drivers there are"},
      {"POCL_CACHE_DIR", "PoCL", "its own kernel cache"},
      {"CUDA_VISIBLE_DEVICES", "CUDA driver", "which GPUs exist, and their numbers"},
  };
  return table;
}

}  // namespace volta::cli
