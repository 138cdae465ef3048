// Dropout and Dropout2d.
#include "volta/nn/dropout.h"

#include <vector>

#include <fmt/format.h>

#include "volta/creation.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta::nn {
namespace {

double checked(const char* layer, double p) {
  const bool inside = p >= 0 && p <= 1;  // false for NaN
  if (!inside) {
    throw ArgumentError(fmt::format("{}: p must be in [0, 1], got {}", layer, p));
  }
  return p;
}

}  // namespace

Dropout::Dropout(double p) : p_(checked("Dropout", p)) {}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p_, is_training()); }

Dropout2d::Dropout2d(double p) : p_(checked("Dropout2d", p)) {}

Tensor Dropout2d::forward(const Tensor& x) {
  if (!x.defined()) throw ArgumentError("Dropout2d: the input is not a tensor");
  if (x.rank() != 3 && x.rank() != 4) {
    throw ShapeError(
        fmt::format("Dropout2d: expected [n, channels, height, width] or [n, channels, length], "
                    "got {}",
                    to_string(x.shape())));
  }
  if (!is_training() || p_ == 0) return x;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.rank()), 1);
  sizes[0] = x.shape()[0];
  sizes[1] = x.shape()[1];
  return x * dropout(ones(Shape(sizes), {.dtype = x.dtype(), .device = x.device()}), p_);
}

}  // namespace volta::nn
