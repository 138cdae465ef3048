// Convolutions and attention through cuDNN graphs; execution plans are chosen once per shape and
// kept. cuDNN is opened when the first of these steps is planned. Without cuDNN, plans lower them
// to kernels and products.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/bound.h"
#include "backend/cuda/context.h"
#include "backend/steps.h"
#include "core/recent.h"
#include "volta/system_info.h"

struct cudnnContext;  // handle type of cuDNN

namespace volta::cuda {

// The graph of a step, ready to run.
class CudnnCall;
struct CudnnEngine;
// The engines of convolutions, by step and by what steps have in common that differ only in size.
using CudnnEngines = Recent<std::vector<std::int64_t>, std::shared_ptr<const CudnnEngine>, 512>;

// Opens cuDNN to report its version, or why it is not used.
LibraryInfo cudnn_library();

class CudnnLibrary {
 public:
  explicit CudnnLibrary(const Context& context) : context_(context) {}
  ~CudnnLibrary();
  CudnnLibrary(const CudnnLibrary&) = delete;
  CudnnLibrary& operator=(const CudnnLibrary&) = delete;

  // Returns the call for a step: a convolution with channels-last weights, or attention, whose
  // operands are contiguous if it does not name them. Null if the library is missing
  // (which is logged once) or does not support the step. The context must be current.
  std::shared_ptr<const CudnnCall> call(const plan::Step& step);
  // Returns the call for a step of a plan, which the library supported when the plan was made.
  // Throws BackendError if it no longer does, or needs more memory than the step has.
  std::shared_ptr<const CudnnCall> checked_call(const plan::Step& step);
  static std::uint64_t workspace_bytes(const CudnnCall& call);
  // An estimate of the host memory of the planned calls.
  std::uint64_t bytes();
  // Drops the planned calls; plans keep those that they use.
  void drop_unused();
  // Enqueues the step.
  void run(const CudnnCall& call, const plan::Step& step, const Bound& bound, CUstream stream);

 private:
  bool start();
  template <class S>
  std::shared_ptr<const CudnnCall> kept_or_planned(const S& step);
  void check_run(bool good, const std::string& message, const std::string& what) const;

  const Context& context_;
  cudnnContext* handle_ = nullptr;
  bool missing_ = false;
  std::mutex mutex_;
  // A network has a few hundred distinct convolutions at most.
  Recent<std::vector<std::int64_t>, std::shared_ptr<const CudnnCall>, 512> calls_;
  CudnnEngines engines_;
};

}  // namespace volta::cuda
