// A matrix product as a library call.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/steps.h"
#include "plan/calls/call.h"

namespace volta::plan {

// The attributes of a product's value. Its operands are two matrices, or batches of matrices, and
// those of an Epilogue. Products of halves are f32, or rounded to the operands' dtype.
struct MatmulAttributes {
  bool transpose_a = false, transpose_b = false, tf32 = false;
  Activation activation = Activation::None;

  std::vector<Extent> pack() const {
    return {transpose_a, transpose_b, tf32, static_cast<std::int64_t>(activation)};
  }
  static MatmulAttributes of(const Value& value) {
    return {.transpose_a = value.attrs[0] != 0,
            .transpose_b = value.attrs[1] != 0,
            .tf32 = value.attrs[2] != 0,
            .activation = static_cast<Activation>(value.attrs[3].fixed())};
  }
};

const Call& matmul_call();
bool is_matmul(const Value& value);

// Multiplies two matrices, or batches of matrices [n, rows, columns]. Small products become
// reductions in kernels.
Expr matmul(Lowering& lowering, Expr a, Expr b, bool transpose_a, bool transpose_b, bool tf32);

}  // namespace volta::plan
