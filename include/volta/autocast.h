// Autocast: mixed precision for a part of the program.
#pragma once

#include "volta/detail/scope.h"
#include "volta/dtype.h"
#include "volta/export.h"

namespace volta {

// While alive, operations of this thread choose their dtype by PyTorch's lists for CUDA, on every
// device:
//   matmul, bmm, linear, einsum, convolutions and attention convert floats to `dtype`;
//   exponentials, logarithms, powers, reciprocals (also 2 / x), softplus, tan, asin, acos, sinh,
//     cosh, sums, products of elements, norms, softmax, logsumexp, layer_norm, group_norm,
//     interpolate and losses convert f16 and bf16 to f32;
//   scatter_add converts floats to the widest dtype among them, as dot, atan2, addcmul, addcdiv
//     and concat do with or without Autocast;
//   all other operations compute in the dtype of their operands.
// Autocast differs from PyTorch on purpose in two ways:
//   mean, var, std and exp2 also convert f16 and bf16 to f32, because a mean may be the loss, and
//     the reasons for sum and exp apply to them as well;
//   f64 stays f64, and other floats beside it are promoted instead of refused.
// Parameters are converted once for all nested scopes, and the converted copies live no longer than
// the parameters. Gradients have the parameters' dtype. backward() and step() ignore the scope.
class VOLTA_API Autocast : public Scope<DType> {
 public:
  explicit Autocast(DType dtype);  // bf16 or f16; f32 turns autocast off, also inside another scope
  ~Autocast();

  // The dtype of matrix products in this thread now; f32 outside of any scope.
  static DType dtype();
};

}  // namespace volta
