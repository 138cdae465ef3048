// Operands of products as strided matrices in memory.
#include "plan/grouping.h"

namespace volta::plan {

MatrixView matrix_view(const std::vector<Value>& values, const std::vector<bool>& stored, int id) {
  const Shape& shape = values[static_cast<std::size_t>(id)].shape;
  // Follow views down to memory, with one axis per dimension of the matrix.
  const std::size_t axes = static_cast<std::size_t>(shape.rank());
  std::vector<std::int64_t> extents(shape.begin(), shape.end());
  IndexMap index;
  for (std::size_t d = 0; d < axes; ++d) index.push_back(Linear::axis(axes, d));
  const Value* v = &values[static_cast<std::size_t>(id)];
  const auto in_memory = [&](int value) {
    const std::size_t i = static_cast<std::size_t>(value);
    return stored[i] || values[i].kind == ValueKind::Leaf;
  };
  while (!in_memory(reshape_base(values, id))) {
    if (!v->is_view()) return {};
    std::vector<LinearBound> bounds;
    std::optional<AxisSplit> split;
    const Shape& inner = values[static_cast<std::size_t>(v->in[0])].shape;
    auto next = through_view(*v, inner, index, extents, bounds, split);
    if (!next || !bounds.empty()) return {};
    index = std::move(*next);
    id = v->in[0];
    v = &values[static_cast<std::size_t>(id)];
  }
  // A reshape of memory needs no following: the element number is the same.
  const Linear address = flatten(index, v->shape, axes);
  MatrixView view;
  view.base = reshape_base(values, id);
  view.offset = address.offset;
  const std::size_t row = axes - 2, column = axes - 1;
  const std::int64_t rows = extents[row], columns = extents[column];
  const std::int64_t r = address.coefficient[row], c = address.coefficient[column];
  if (axes == 3) view.batch_stride = address.coefficient[0];
  if (view.batch_stride < 0) return {};
  if ((c == 1 || columns == 1) && (r >= columns || rows == 1)) {
    view.leading = rows == 1 ? columns : r;
  } else if ((r == 1 || rows == 1) && (c >= rows || columns == 1)) {
    view.transposed = true;
    view.leading = columns == 1 ? rows : c;
  } else {
    return {};
  }
  return view;
}

}  // namespace volta::plan
