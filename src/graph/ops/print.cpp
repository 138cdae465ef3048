// Formats tensors as text.
#include <algorithm>
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include "core/convert.h"
#include "graph/record/apply.h"
#include "graph/record/evaluation.h"
#include "volta/tensor.h"
#include "volta/transfers.h"

namespace volta {
namespace {

constexpr std::int64_t kEdge = 3;      // elements shown at each end of a long axis
constexpr std::int64_t kWhole = 1000;  // tensors of up to this many elements are printed completely

struct Printer {
  const std::byte* bytes;
  DType dtype;
  const Shape& shape;
  bool shorten;
  bool scientific = false;
  std::string text = {};

  // Scientific notation is used where four decimals would hide small numbers or large numbers would
  // fill the line.
  void choose_form() {
    if (!is_floating(dtype)) return;
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      double value = 0;
      convert(bytes + static_cast<std::size_t>(i) * size_of(dtype), dtype, &value, DType::f64, 1);
      const double size = std::fabs(value);
      if (std::isfinite(size) && size != 0 && (size < 1e-4 || size >= 1e8)) scientific = true;
    }
  }

  std::string element(std::int64_t at) const {
    double value = 0;
    std::int64_t integer = 0;
    const std::byte* where = bytes + static_cast<std::size_t>(at) * size_of(dtype);
    if (is_floating(dtype)) {
      convert(where, dtype, &value, DType::f64, 1);
      if (std::isnan(value)) return "nan";
      return scientific ? fmt::format("{:.4e}", value) : fmt::format("{:.4f}", value);
    }
    convert(where, dtype, &integer, DType::i64, 1);
    return dtype == DType::boolean ? (integer != 0 ? "true" : "false") : fmt::format("{}", integer);
  }

  void print(int axis, std::int64_t first, std::int64_t stride) {
    if (axis == shape.rank()) {
      text += element(first);
      return;
    }
    const std::int64_t inner = shape[axis] == 0 ? 0 : stride / shape[axis];
    text += '[';
    for (std::int64_t i = 0; i < shape[axis]; ++i) {
      if (i > 0)
        text += axis + 1 == shape.rank()
                    ? ", "
                    : ",\n" + std::string(static_cast<std::size_t>(axis) + 1, ' ');
      if (shorten && i == kEdge && shape[axis] > 2 * kEdge) {
        text += "...";
        i = shape[axis] - kEdge - 1;
        continue;
      }
      print(axis + 1, first + i * inner, inner);
    }
    text += ']';
  }
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "tensor(undefined)";
  const TransferReason reason("printing", {});
  const auto bytes = graph::observe(graph::node_of(tensor));
  Printer printer{bytes.data(), tensor.dtype(), tensor.shape(), tensor.numel() > kWhole};
  printer.choose_form();
  printer.print(0, 0, tensor.numel());
  out << printer.text;
  if (tensor.dtype() != DType::f32) out << ' ' << tensor.dtype();
  if (!tensor.device().is_cpu()) out << ' ' << tensor.device();
  return out;
}

}  // namespace volta
