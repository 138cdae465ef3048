// Dropout.
#include "volta/nn/dropout.h"

#include <fmt/format.h>

#include "volta/error.h"
#include "volta/ops.h"

namespace volta::nn {

Dropout::Dropout(double p) : p_(p) {
  const bool inside = p >= 0 && p <= 1;  // false for NaN
  if (!inside) {
    throw ArgumentError(fmt::format("Dropout: p must be in [0, 1], got {}", p));
  }
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p_, is_training()); }

}  // namespace volta::nn
