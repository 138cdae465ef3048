// Convolutions through cuDNN's graphs: plans chosen once per shape and kept. Opened when the first
// convolution is planned; without it plans lower convolutions to products.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "backend/cuda/context.h"
#include "plan/plan_steps.h"

struct cudnnContext;  // of cuDNN

namespace volta::cuda {

class Convolution;

class ConvLibrary {
 public:
  explicit ConvLibrary(const Context& context) : context_(context) {}
  ~ConvLibrary();
  ConvLibrary(const ConvLibrary&) = delete;
  ConvLibrary& operator=(const ConvLibrary&) = delete;

  // How to run the step, weights with their channels last; null where the library does not take it
  // or there is none (said once, as a warning). The context is current.
  std::shared_ptr<const Convolution> convolution(const plan::ConvStep& step);
  static std::uint64_t workspace_bytes(const Convolution& convolution);
  // Enqueues it.
  void run(const Convolution& convolution, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c,
           CUdeviceptr workspace, CUstream stream);

 private:
  using Key = std::array<std::int64_t, 20>;

  bool start();
  std::shared_ptr<const Convolution> plan(const plan::ConvStep& step);

  const Context& context_;
  cudnnContext* handle_ = nullptr;
  bool missing_ = false;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const Convolution>> convolutions_;
};

}  // namespace volta::cuda
