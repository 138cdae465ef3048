// Masks of attention.
#include "volta/nn/masks.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "nn/arguments.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta::nn {

Tensor causal_mask(std::int64_t length, const TensorOptions& options) {
  if (length < 0) {
    throw ArgumentError(fmt::format("causal_mask: a length of {} is negative", length));
  }
  if (options.dtype && !is_floating(*options.dtype)) {
    throw DTypeError(
        fmt::format("causal_mask: the mask is added to scores, so its dtype cannot be {}",
                    name_of(*options.dtype)));
  }
  const AsNamed as_named(options.device);
  const Tensor none = zeros({length, length}, {.dtype = options.dtype, .device = options.device});
  const Tensor positions = arange(length, {.dtype = DType::i32, .device = none.device()});
  return masked_fill(none, positions > positions.unsqueeze(1),
                     -std::numeric_limits<double>::infinity());
}

Tensor padding_mask(std::span<const std::int64_t> lengths, std::int64_t length,
                    std::optional<Device> device) {
  std::int64_t longest = 0;
  for (const std::int64_t each : lengths) {
    if (each < 0)
      throw ArgumentError(fmt::format("padding_mask: a length of {} is negative", each));
    longest = std::max(longest, each);
  }
  if (length == 0) length = longest;
  if (length < longest) {
    throw ArgumentError(
        fmt::format("padding_mask: a sequence of length {} does not fit into {}", longest, length));
  }
  const AsNamed as_named(device);
  const std::vector<std::int64_t> copy(lengths.begin(), lengths.end());
  return padding_mask(from_vector(copy, {.device = device}), length);
}

Tensor padding_mask(const Tensor& lengths, std::int64_t length) {
  if (!lengths.defined()) throw ArgumentError("padding_mask: lengths is not a tensor");
  if (lengths.rank() != 1 || length < 0) {
    throw ShapeError(
        fmt::format("padding_mask: lengths {} must have one axis, the length {} not be "
                    "negative",
                    to_string(lengths.shape()), length));
  }
  if (lengths.dtype() != DType::i64 && lengths.dtype() != DType::i32) {
    throw DTypeError(
        fmt::format("padding_mask: lengths are integers, got {}", name_of(lengths.dtype())));
  }
  return arange(length, {.dtype = lengths.dtype(), .device = lengths.device()}) >=
         lengths.unsqueeze(1);
}

}  // namespace volta::nn
