// Shapes and memory of CPU tensors.
#include "data/host_tensor.h"

#include <utility>

#include "volta/creation.h"

namespace volta::data {

Tensor reshaped(const Tensor& computed, const Shape& shape) {
  if (computed.shape() == shape) return computed;
  BlobOptions options{.device = Device::cpu()};
  options.deleter = [kept = computed](void*) {};
  return from_blob(computed.span<std::byte>().data(), shape, computed.dtype(), std::move(options));
}

Shape stacked(std::int64_t rows, const Shape& shape) {
  std::vector<std::int64_t> sizes{rows};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return Shape(sizes, "data");
}

std::size_t row_bytes(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(shape.numel()) * size_of(dtype);
}

}  // namespace volta::data
