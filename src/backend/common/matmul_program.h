// The generic lowering of a matrix product: a kernel program that reduces over k. Backends use it
// for products that their library does not support, and for those too small to be worth a library
// call.
#pragma once

#include "backend/steps.h"
#include "volta/export.h"

namespace volta {

// A kernel step that computes the product of `step`. f16 and bf16 are accumulated in f32.
VOLTA_BACKEND_API plan::KernelStep lower_matmul(const plan::MatmulStep& step);

// Whether some element index of the product's operands exceeds 2^31 - 1.
VOLTA_BACKEND_API bool needs_index64(const plan::MatmulStep& step);

}  // namespace volta
