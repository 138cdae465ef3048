// Shapes with sizes that may be open.
#include "plan/lower/shape.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace volta::plan {

Shape::Shape(std::span<const Extent> sizes) : rank_(static_cast<int>(sizes.size())) {
  if (rank_ > kMaxRank) throw std::logic_error("planner: a shape of too many axes");
  std::copy(sizes.begin(), sizes.end(), sizes_);
  for (const Extent size : sizes) numel_ *= size;
}

Shape::Shape(const volta::Shape& shape) : numel_(shape.numel()), rank_(shape.rank()) {
  std::copy(shape.begin(), shape.end(), sizes_);
}

Shape Shape::with(int axis, Extent size) const {
  PerAxis<Extent> sizes(begin(), end());
  sizes[axis] = size;
  return Shape(sizes);
}

Shape Shape::inserted(int axis, Extent size) const {
  std::vector<Extent> sizes(begin(), end());
  sizes.insert(sizes.begin() + axis, size);
  return Shape(sizes);
}

Shape Shape::removed(int axis) const {
  std::vector<Extent> sizes(begin(), end());
  sizes.erase(sizes.begin() + axis);
  return Shape(sizes);
}

volta::Shape Shape::fixed() const { return volta::Shape(plan::fixed(sizes())); }
volta::Shape Shape::hint() const { return volta::Shape(hints(sizes())); }

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  PerAxis<Extent> sizes(longer.begin(), longer.end());
  const int missing = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    Extent& size = sizes[missing + i];
    const Extent other = shorter[i];
    if (is_same(size, other) || other == 1) continue;
    if (size == 1) {
      size = other;
    } else if (!(size == other)) {
      throw std::logic_error(std::string("planner: shapes of ") + op + " do not broadcast");
    }
  }
  return Shape(sizes);
}

PerAxis<Extent> row_major_strides(const Shape& shape) {
  auto strides = shape.per_axis<Extent>();
  Extent stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

Shape around(const Shape& shape, int axis) {
  Extent sizes[] = {1, 1, 1};
  for (int i = 0; i < shape.rank(); ++i) sizes[i < axis ? 0 : i == axis ? 1 : 2] *= shape[i];
  return {sizes[0], sizes[1], sizes[2]};
}

std::vector<std::int64_t> channels_second(int rank) {
  std::vector<std::int64_t> order{0, rank - 1};
  for (int axis = 1; axis < rank - 1; ++axis) order.push_back(axis);
  return order;
}

Shape channels_moved_last(const Shape& shape) {
  std::vector<Extent> sizes{shape[0]};
  for (int axis = 2; axis < shape.rank(); ++axis) sizes.push_back(shape[axis]);
  sizes.push_back(shape[1]);
  return Shape(sizes);
}

}  // namespace volta::plan
