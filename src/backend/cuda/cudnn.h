// Convolutions and attention through cuDNN's graphs: plans chosen once per shape and kept. Opened
// when the first of them is planned; without it plans lower them to products.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/context.h"
#include "core/recent.h"
#include "plan/plan_steps.h"
#include "volta/system_info.h"

struct cudnnContext;  // of cuDNN

namespace volta::cuda {

class Convolution;
class AttentionCall;

// Opens cuDNN, to tell its version or why it is not used.
LibraryInfo cudnn_library();

class CudnnLibrary {
 public:
  explicit CudnnLibrary(const Context& context) : context_(context) {}
  ~CudnnLibrary();
  CudnnLibrary(const CudnnLibrary&) = delete;
  CudnnLibrary& operator=(const CudnnLibrary&) = delete;

  // How to run the step, weights with their channels last; null where the library does not take it
  // or there is none (said once, as a warning). The context is current.
  std::shared_ptr<const Convolution> convolution(const plan::ConvStep& step);
  static std::uint64_t workspace_bytes(const Convolution& convolution);
  // The same for attention. Without reads: as if they were contiguous.
  std::shared_ptr<const AttentionCall> attention(const plan::AttentionStep& step);
  static std::uint64_t workspace_bytes(const AttentionCall& call);
  // Enqueues them; addresses of reads and writes, the operands' offsets included.
  void run(const AttentionCall& call, std::span<const CUdeviceptr> addresses, CUdeviceptr workspace,
           CUstream stream);
  struct ConvAddresses {
    CUdeviceptr a = 0, b = 0, c = 0, bias = 0, workspace = 0;
  };
  void run(const Convolution& convolution, const ConvAddresses& at, CUstream stream);

 private:
  using Key = std::array<std::int64_t, 21>;

  bool start();
  // Null where the library does not take it; `short_of_memory` where it might another time.
  std::shared_ptr<const Convolution> plan(const plan::ConvStep& step, bool& short_of_memory);
  std::shared_ptr<const AttentionCall> plan(const plan::AttentionStep& step);
  void check_run(bool good, const std::string& message, const char* what) const;

  const Context& context_;
  cudnnContext* handle_ = nullptr;
  bool missing_ = false;
  std::mutex mutex_;
  Recent<Key, std::shared_ptr<const Convolution>> convolutions_;
  Recent<std::vector<std::int64_t>, std::shared_ptr<const AttentionCall>> attentions_;
};

}  // namespace volta::cuda
