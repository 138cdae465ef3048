// Everything of one CUDA device: context, staging, kernels, products, and the scalars
// written lately. Made on first use.
#pragma once

#include <cstddef>
#include <mutex>

#include "backend/cuda/context.h"
#include "backend/cuda/cudnn.h"
#include "backend/cuda/matmul.h"
#include "backend/cuda/modules.h"
#include "backend/cuda/scalars.h"
#include "backend/cuda/staging.h"
#include "backend/cuda/timeline.h"

namespace volta::cuda {

class Device {
 public:
  Device(const Libraries& libraries, int index);

  // These throw BackendError once the device is lost.
  CUdeviceptr allocate(std::size_t bytes);  // 0 when there is no more
  void release(CUdeviceptr memory);
  void upload(CUdeviceptr destination, const void* source, std::size_t bytes);
  void download(void* destination, CUdeviceptr source, std::size_t bytes);
  void copy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes);
  void synchronize();

  const Context& context() const { return context_; }
  Modules& modules() { return modules_; }
  MatmulLibrary& matmuls() { return matmuls_; }
  CudnnLibrary& cudnn() { return cudnn_; }
  Staging& staging() { return staging_; }
  Timeline& timeline() { return timeline_; }
  ScalarTable& scalars() { return scalars_; }  // under submission()
  CUstream capture_stream() const { return capture_stream_.get(); }
  // Held while a run is enqueued, so that runs follow each other whole.
  std::mutex& submission() { return submission_; }

 private:
  void forget_scalars(CUdeviceptr address, std::size_t bytes);
  // Enqueues a copy, timed where a profiler records.
  template <class Enqueue>
  void timed_copy(profiling::Span::Kind kind, std::size_t bytes, const Enqueue& enqueue);
  bool read_mirror(void* destination, CUdeviceptr source, std::size_t bytes);

  const Context context_;  // first: the others use it to their end
  Stream capture_stream_;
  Modules modules_;
  MatmulLibrary matmuls_;
  CudnnLibrary cudnn_;
  Staging staging_;
  Timeline timeline_;
  std::mutex submission_;
  ScalarTable scalars_;
};

}  // namespace volta::cuda
