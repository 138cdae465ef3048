// Attention in halves by the backend's own kernels (attention_kernel.cuh): which variants a step
// runs, and how they are launched. All sizes are arguments, so other sizes compile nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/steps.h"
#include "kernel/emit.h"

namespace volta::cuda {

// How a kernel is laid over threads; attention_kernel.cuh explains the numbers.
struct AttentionTile {
  int warps, tiles, block, step, parts = 1;

  int rows() const { return warps * tiles * 16; }
};

// What the text of a kernel depends on.
struct AttentionVariant {
  enum class Kernel : std::uint8_t { Forward, QueriesGradient, KeysGradient };
  Kernel kernel = Kernel::Forward;
  DType dtype = DType::f16;
  int size = 0;  // the head size for which there is room
  bool causal = false, masked = false;
  DType mask = DType::boolean;
  AttentionTile tile{};

  unsigned shared_bytes() const;
  kernel::KernelSource source() const;
};

struct AttentionLaunch {
  AttentionVariant variant;
  std::int64_t blocks = 0;
  std::vector<plan::BufferRef> buffers;
  std::vector<std::int64_t> ints;  // the struct Numbers of the kernels
};

// Whether the kernels compute the step, and the scratch memory that they need for it.
CallSupport attention_support(const plan::AttentionStep& step, int compute_capability);

// The launches of a step that they compute, in order; none if there is nothing to compute.
std::vector<AttentionLaunch> attention_launches(const plan::AttentionStep& step,
                                                int compute_capability);

}  // namespace volta::cuda
