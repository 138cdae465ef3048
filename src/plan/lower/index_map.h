// Index expressions while a kernel is planned: affine in the kernel's axes, with concrete numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/ir.h"

namespace volta::plan {

struct Linear {
  std::vector<std::int64_t> coefficient;  // per axis
  std::int64_t offset = 0;

  explicit Linear(std::size_t axes = 0) : coefficient(axes, 0) {}
  static Linear axis(std::size_t axes, std::size_t which, std::int64_t factor = 1) {
    Linear linear(axes);
    linear.coefficient[which] = factor;
    return linear;
  }
  bool is_zero() const;
  void add(const Linear& other, std::int64_t factor);
  friend bool operator==(const Linear&, const Linear&) = default;
};

using IndexMap = std::vector<Linear>;  // one expression per dimension of a value

// 0 <= expression < high, or the access does not happen.
struct LinearBound {
  Linear expression;
  std::int64_t high;
  friend bool operator==(const LinearBound&, const LinearBound&) = default;
};

// An axis must become two (outer, inner of extent `inner`) before a reshape can be followed.
struct AxisSplit {
  std::size_t axis;
  std::int64_t inner;
};

// The index into the operand of a view, given the index into the view. Pad adds bounds. Returns
// nothing when a reshape cannot be followed: `split` is then set if splitting an axis would help.
std::optional<IndexMap> through_view(const Value& view, const Shape& operand, const IndexMap& index,
                                     const std::vector<std::int64_t>& extents,
                                     std::vector<LinearBound>& bounds,
                                     std::optional<AxisSplit>& split);

// The element number in a contiguous buffer of the shape.
Linear flatten(const IndexMap& index, const Shape& shape, std::size_t axes);

// ---- Memory of values (joins.cpp): of their own, or their part of a Join's.
// The value in whose buffer it lies.
int memory_of(const std::vector<Value>& values, int id);
// The element of that buffer at an index of the value.
Linear address_of(const Value& value, const IndexMap& index, std::size_t axes);
// Whether its elements follow one another, as those of a buffer of its own do.
bool is_dense(const Value& value);

}  // namespace volta::plan
