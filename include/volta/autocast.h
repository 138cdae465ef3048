// Autocast: mixed precision for a stretch of the program.
#pragma once

#include "volta/dtype.h"
#include "volta/export.h"

namespace volta {

// While alive, operations of this thread choose their dtype, as under PyTorch's autocast:
//   products (matmul, linear, einsum, convolutions, attention) take floats as `dtype`;
//   exponentials, logarithms, powers, sums, norms, softmax and losses take halves as f32;
//   everything else computes in the dtype of its operands. f64 stays f64 everywhere.
// Parameters are converted once for all scopes that are nested; gradients have the parameters'
// dtype. backward() and step() do not look at the scope. Scopes nest, the innermost decides.
class VOLTA_API Autocast {
 public:
  explicit Autocast(DType dtype);  // bf16 or f16; f32: off, also inside another scope
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  // What products of this thread are computed in now; f32 where no scope says otherwise.
  static DType dtype();

 private:
  DType previous_;
};

}  // namespace volta
