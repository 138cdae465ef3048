// Shapes of the planner's values: like volta::Shape, but sizes may be open.
#pragma once

#include <initializer_list>
#include <span>

#include "plan/lower/extent.h"
#include "plan/lower/table.h"
#include "volta/shape.h"

namespace volta::plan {

// Names an axis of a shape.
struct ShapeAxis;
using AxisId = Id<ShapeAxis>;

// A table with one item per axis.
template <class T>
using PerAxis = Table<AxisId, T>;

class VOLTA_BACKEND_API Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Extent> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const Extent> sizes);
  // Explicit, because the sizes of recorded nodes may be open (Lowering::shape_of).
  explicit Shape(const volta::Shape& shape);

  int rank() const { return rank_; }
  Extent numel() const { return numel_; }
  Extent operator[](int axis) const { return sizes_[axis]; }
  const Extent* begin() const { return sizes_; }
  const Extent* end() const { return sizes_ + rank_; }
  std::span<const Extent> sizes() const { return {sizes_, static_cast<std::size_t>(rank_)}; }
  template <class T>
  PerAxis<T> per_axis(const T& initial = T()) const {
    return PerAxis<T>(sizes().size(), initial);
  }

  // Returns a copy with one axis replaced, inserted or removed.
  Shape with(int axis, Extent size) const;
  Shape inserted(int axis, Extent size) const;
  Shape removed(int axis) const;

  // The shape at the sizes of planning, for messages and estimates.
  volta::Shape hint() const;
  // The shape as plain numbers, which the plan then fixes.
  volta::Shape fixed() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  Extent sizes_[kMaxRank] = {};
  Extent numel_ = 1;
  int rank_ = 0;
};

// The distances between elements of a contiguous array that follow each other along an axis.
PerAxis<Extent> row_major_strides(const Shape& shape);

// The shape as [before, extent, after] around an axis.
Shape around(const Shape& shape, int axis);

// As volta::broadcast_shapes, for shapes that are known to broadcast.
VOLTA_BACKEND_API Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

// The axes of images whose channels lie last, in the order in which operations have them: 0, last,
// 1, 2, ...
std::vector<std::int64_t> channels_second(int rank);
// The sizes of images [n, channels, ...] as [n, ..., channels].
Shape channels_moved_last(const Shape& shape);

}  // namespace volta::plan
