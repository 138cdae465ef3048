// Autocast: mixed precision for a stretch of the program.
#pragma once

#include "volta/dtype.h"
#include "volta/export.h"
#include "volta/scope.h"

namespace volta {

// While alive, operations of this thread choose their dtype by PyTorch's lists for CUDA, on every
// device:
//   products (matmul, bmm, linear, einsum, convolutions, attention) take floats as `dtype`;
//   exponentials, logarithms, powers, reciprocals (also 2 / x), softplus, tan, asin, acos, sinh,
//     cosh, sums, products of elements, norms, softmax, logsumexp, layer_norm, group_norm,
//     interpolate and losses take halves as f32;
//   scatter_add takes floats as the widest of them (as dot, atan2, addcmul, addcdiv and concat do
//     in any scope or none);
//   everything else computes in the dtype of its operands.
// It differs from PyTorch on purpose in these:
//   mean, var, std and exp2 are of those that take halves as f32: a mean may be the loss, and what
//     holds of a sum and of exp holds of them;
//   f64 stays f64 everywhere, and beside it other floats are promoted instead of being refused.
// Parameters are converted once for all scopes that are nested, and what they were converted to
// lives no longer than they do; gradients have the parameters' dtype. backward() and step() do not
// look at the scope.
class VOLTA_API Autocast : public Scope<DType> {
 public:
  explicit Autocast(DType dtype);  // bf16 or f16; f32: off, also inside another scope
  ~Autocast();

  // What products of this thread are computed in now; f32 where no scope says otherwise.
  static DType dtype();
};

}  // namespace volta
