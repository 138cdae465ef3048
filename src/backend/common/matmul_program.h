// The generic lowering of a matrix product: a kernel program that reduces over k. Backends use it
// for products their library does not take, and for those too small to be worth a library call.
#pragma once

#include "plan/plan_steps.h"
#include "volta/export.h"

namespace volta {

// A kernel step that computes what `step` says. Half types are accumulated in f32.
VOLTA_BACKEND_API plan::KernelStep lower_matmul(const plan::MatmulStep& step);

// True if some element number of the product's operands passes 2^31 - 1.
VOLTA_BACKEND_API bool needs_index64(const plan::MatmulStep& step);

}  // namespace volta
