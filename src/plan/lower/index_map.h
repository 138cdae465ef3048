// Index expressions for planning a kernel: affine functions of the kernel's axes.
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

using IndexMap = PerAxis<Linear>;  // the index of a value

// The condition 0 <= expression < high, without which an access does not happen.
struct LinearBound {
  Linear expression;
  Extent high;
  friend bool operator==(const LinearBound&, const LinearBound&) = default;
};

// An axis that must be split into an outer axis and an inner one of size `inner` before a reshape
// can be followed.
struct AxisSplit {
  std::size_t axis;
  Extent inner;
};

// The index into the operand of a view, given the index into the view. Pad adds bounds. Returns
// nothing if a reshape cannot be followed; `split` is then set if splitting an axis would help.
std::optional<IndexMap> through_view(const Value& view, const Shape& operand, const IndexMap& index,
                                     const std::vector<Extent>& extents,
                                     std::vector<LinearBound>& bounds,
                                     std::optional<AxisSplit>& split);

// The element number in a contiguous buffer of the shape.
Linear flatten(const IndexMap& index, const Shape& shape, std::size_t axes);

// ---- Memory of values (memory.cpp): a buffer of their own, or a part of a Join's.
// The value in whose buffer a value is stored if there are only reshapes between them.
ValueId reshape_base(const std::vector<Value>& values, ValueId id);
// The value in whose buffer a value is stored.
ValueId memory_of(const Values& values, ValueId id);
// The element number in that buffer for an index of the value.
Linear address_of(const Value& value, const IndexMap& index, std::size_t axes);
// Whether the elements of the value are contiguous, as in a buffer of its own.
bool is_dense(const Value& value);

}  // namespace volta::plan
