// Index expressions while a kernel is planned: affine in the kernel's axes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/short_list.h"
#include "plan/lower/ir.h"

namespace volta::plan {

struct Linear {
  ShortList<Extent, 6> coefficient;  // per axis
  Extent offset = 0;

  explicit Linear(std::size_t axes = 0) : coefficient(axes, 0) {}
  static Linear axis(std::size_t axes, std::size_t which, Extent factor = 1) {
    Linear linear(axes);
    linear.coefficient[which] = factor;
    return linear;
  }
  bool is_zero() const;
  void add(const Linear& other, Extent factor);
  friend bool operator==(const Linear&, const Linear&) = default;
};

using IndexMap = std::vector<Linear>;  // one expression per dimension of a value

// 0 <= expression < high, or the access does not happen.
struct LinearBound {
  Linear expression;
  Extent high;
  friend bool operator==(const LinearBound&, const LinearBound&) = default;
};

// An axis must become two (outer, inner of extent `inner`) before a reshape can be followed.
struct AxisSplit {
  std::size_t axis;
  Extent inner;
};

// The index into the operand of a view, given the index into the view. Pad adds bounds. Returns
// nothing when a reshape cannot be followed: `split` is then set if splitting an axis would help.
std::optional<IndexMap> through_view(const Value& view, const Shape& operand, const IndexMap& index,
                                     const std::vector<Extent>& extents,
                                     std::vector<LinearBound>& bounds,
                                     std::optional<AxisSplit>& split);

// The element number in a contiguous buffer of the shape.
Linear flatten(const IndexMap& index, const Shape& shape, std::size_t axes);

// ---- Memory of values (memory.cpp): of their own, or their part of a Join's.
// The value in whose buffer a value lies if only reshapes stand between them.
int reshape_base(const std::vector<Value>& values, int id);
// The value in whose buffer it lies.
ValueId memory_of(const Values& values, ValueId id);
// The element of that buffer at an index of the value.
Linear address_of(const Value& value, const IndexMap& index, std::size_t axes);
// Whether its elements follow one another, as those of a buffer of its own do.
bool is_dense(const Value& value);

}  // namespace volta::plan
