// The CUDA libraries as tables of function pointers. Nothing is linked: the driver, NVRTC and
// cuBLASLt are opened one by one at run time. The members have versioned names, because cuda.h maps
// the plain names to those.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>

#include <string>

namespace volta::cuda {

#define VOLTA_CUDA_DRIVER_FUNCTIONS(X) \
  X(cuInit)                            \
  X(cuDriverGetVersion)                \
  X(cuGetErrorName)                    \
  X(cuGetErrorString)                  \
  X(cuDeviceGet)                       \
  X(cuDeviceGetCount)                  \
  X(cuDeviceGetName)                   \
  X(cuDeviceGetAttribute)              \
  X(cuDeviceTotalMem)                  \
  X(cuDevicePrimaryCtxRetain)          \
  X(cuDevicePrimaryCtxRelease)         \
  X(cuCtxPushCurrent)                  \
  X(cuCtxPopCurrent)                   \
  X(cuCtxGetCurrent)                   \
  X(cuCtxSetCurrent)                   \
  X(cuStreamCreate)                    \
  X(cuStreamDestroy)                   \
  X(cuStreamQuery)                     \
  X(cuStreamSynchronize)               \
  X(cuStreamWaitEvent)                 \
  X(cuStreamBeginCapture)              \
  X(cuStreamEndCapture)                \
  X(cuEventCreate)                     \
  X(cuEventDestroy)                    \
  X(cuEventRecord)                     \
  X(cuEventRecordWithFlags)            \
  X(cuEventQuery)                      \
  X(cuEventSynchronize)                \
  X(cuEventElapsedTime)                \
  X(cuMemGetInfo)                      \
  X(cuMemAlloc)                        \
  X(cuMemFree)                         \
  X(cuMemHostAlloc)                    \
  X(cuMemHostGetDevicePointer)         \
  X(cuMemFreeHost)                     \
  X(cuPointerGetAttributes)            \
  X(cuMemcpyHtoDAsync)                 \
  X(cuMemcpyDtoHAsync)                 \
  X(cuMemcpyDtoDAsync)                 \
  X(cuMemsetD8Async)                   \
  X(cuModuleLoadData)                  \
  X(cuModuleUnload)                    \
  X(cuModuleGetFunction)               \
  X(cuFuncSetAttribute)                \
  X(cuLaunchKernel)                    \
  X(cuGraphInstantiate)                \
  X(cuGraphDestroy)                    \
  X(cuGraphExecDestroy)                \
  X(cuGraphLaunch)

#define VOLTA_CUDA_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)                     \
  X(nvrtcGetErrorString)              \
  X(nvrtcGetNumSupportedArchs)        \
  X(nvrtcGetSupportedArchs)           \
  X(nvrtcCreateProgram)               \
  X(nvrtcDestroyProgram)              \
  X(nvrtcCompileProgram)              \
  X(nvrtcGetProgramLogSize)           \
  X(nvrtcGetProgramLog)               \
  X(nvrtcGetCUBINSize)                \
  X(nvrtcGetCUBIN)                    \
  X(nvrtcGetPTXSize)                  \
  X(nvrtcGetPTX)

#define VOLTA_CUDA_CUBLASLT_FUNCTIONS(X)  \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetVersion)                   \
  X(cublasLtGetStatusString)              \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)     \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmul)

// NOLINTNEXTLINE(bugprone-macro-parentheses): the argument is a member's name
#define VOLTA_CUDA_MEMBER(name) decltype(&::name) name = nullptr;
struct Driver {
  VOLTA_CUDA_DRIVER_FUNCTIONS(VOLTA_CUDA_MEMBER)
};
struct Nvrtc {
  VOLTA_CUDA_NVRTC_FUNCTIONS(VOLTA_CUDA_MEMBER)
};
struct CublasLt {
  VOLTA_CUDA_CUBLASLT_FUNCTIONS(VOLTA_CUDA_MEMBER)
};
#undef VOLTA_CUDA_MEMBER

// The libraries found on this machine. They stay open until the process ends.
struct Libraries {
  Driver driver;
  Nvrtc nvrtc;
  CublasLt cublas;
  bool has_cublas = false;
  std::string cublas_missing;  // the reason if has_cublas is false
  int nvrtc_major = 0, nvrtc_minor = 0;
  int device_count = 0;
};

// Opens the libraries and initialises the driver. Returns false, with the reason in *why, if the
// driver, a device or NVRTC is missing. Without cuBLASLt, products use the generic lowering.
bool open_libraries(Libraries& libraries, std::string* why);

// Opens cuDNN; null if it is not installed.
void* open_cudnn();

// An error as text: "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)".
std::string describe(const Driver& driver, CUresult status);

}  // namespace volta::cuda
