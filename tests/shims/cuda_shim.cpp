// A library in front of the CUDA driver (VOLTA_CUDA_DRIVER). It counts the backend's calls of the
// functions below and lets one of them fail; every other function is the driver's own, on which
// this library depends. A failing call does nothing, unless that would leave the driver in an
// intermediate state.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>

#include "shims/fault.h"

namespace {

template <class Function>
Function real(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::abort();
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

// Two levels of macros, so that the versioned name becomes the string.
#define VOLTA_QUOTE(name) #name
#define VOLTA_SYMBOL(name) VOLTA_QUOTE(name)
// Forwards the call unless it is the failing one.
#define VOLTA_FORWARD(name, waits, ...)                                                 \
  static const auto forward = real<decltype(&name)>(VOLTA_SYMBOL(name));                \
  if (const int status = fails_now(#name, waits)) return static_cast<CUresult>(status); \
  return forward(__VA_ARGS__)

extern "C" {

CUresult cuMemAlloc(CUdeviceptr* memory, size_t bytes) {
  VOLTA_FORWARD(cuMemAlloc, false, memory, bytes);
}
CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned int flags) {
  VOLTA_FORWARD(cuMemHostAlloc, false, memory, bytes, flags);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr destination, const void* source, size_t bytes,
                           CUstream stream) {
  VOLTA_FORWARD(cuMemcpyHtoDAsync, false, destination, source, bytes, stream);
}
CUresult cuMemcpyDtoHAsync(void* destination, CUdeviceptr source, size_t bytes, CUstream stream) {
  VOLTA_FORWARD(cuMemcpyDtoHAsync, false, destination, source, bytes, stream);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes,
                           CUstream stream) {
  VOLTA_FORWARD(cuMemcpyDtoDAsync, false, destination, source, bytes, stream);
}
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream,
                        void** parameters, void** extra) {
  VOLTA_FORWARD(cuLaunchKernel, false, function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                shared, stream, parameters, extra);
}
CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  VOLTA_FORWARD(cuGraphInstantiate, false, executable, graph, flags);
}
CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  VOLTA_FORWARD(cuGraphLaunch, false, graph, stream);
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  VOLTA_FORWARD(cuStreamBeginCapture, false, stream, mode);
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  static const auto forward = real<decltype(&cuStreamEndCapture)>(VOLTA_SYMBOL(cuStreamEndCapture));
  static const auto destroy = real<decltype(&cuGraphDestroy)>(VOLTA_SYMBOL(cuGraphDestroy));
  const CUresult ended = forward(stream, graph);
  const int status = fails_now("cuStreamEndCapture");
  if (status == 0) return ended;
  if (ended == CUDA_SUCCESS && *graph != nullptr) destroy(*graph);
  *graph = nullptr;
  return static_cast<CUresult>(status);
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  VOLTA_FORWARD(cuStreamWaitEvent, false, stream, event, flags);
}
CUresult cuStreamSynchronize(CUstream stream) { VOLTA_FORWARD(cuStreamSynchronize, true, stream); }
CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  VOLTA_FORWARD(cuEventCreate, false, event, flags);
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  VOLTA_FORWARD(cuEventRecord, false, event, stream);
}
CUresult cuEventSynchronize(CUevent event) { VOLTA_FORWARD(cuEventSynchronize, true, event); }
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  VOLTA_FORWARD(cuModuleLoadData, false, module, image);
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  VOLTA_FORWARD(cuModuleGetFunction, false, function, module, name);
}
CUresult cuCtxGetCurrent(CUcontext* context) { VOLTA_FORWARD(cuCtxGetCurrent, false, context); }

}  // extern "C"
