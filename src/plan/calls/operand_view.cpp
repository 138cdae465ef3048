// Follows the views between an operand and the buffer that holds it.
#include "plan/calls/operand_view.h"

#include <algorithm>
#include <optional>

#include "plan/lower/index_map.h"

namespace volta::plan {
namespace {

// Follows views down to memory. A dimension is split into axes where a reshape requires it; the
// axes are joined again if a single stride walks them in memory.
class Walk {
 public:
  Walk(const StoredValues& plan, const Shape& shape) : values_(plan.values), stored_(plan.stored) {
    for (const Extent extent : shape) pieces_.push_back({extent});
  }

  // Returns whether memory was reached; `base`, `offset` and `strides` are then set.
  bool run(int id) {
    constexpr int kMaxSplits = 8;
    for (int splits = 0; splits <= kMaxSplits; ++splits) {
      std::optional<AxisSplit> split;
      if (follow(id, split)) return true;
      if (!split) return false;
      cut(*split);
    }
    return false;
  }

  int base = -1;
  Extent offset = 0;
  std::vector<Extent> strides;  // for each dimension of the operand

 private:
  const Value& at(int id) const { return values_[static_cast<std::size_t>(id)]; }

  bool in_memory(int id) const {
    return stored_[static_cast<std::size_t>(id)] || at(id).kind == ValueKind::Leaf;
  }

  bool follow(int id, std::optional<AxisSplit>& split) {
    std::vector<Extent> extents;
    for (const auto& pieces : pieces_) extents.insert(extents.end(), pieces.begin(), pieces.end());
    IndexMap index;
    std::size_t axis = 0;
    for (const auto& pieces : pieces_) {
      Linear& e = index.emplace_back(extents.size());
      for (const Extent extent : pieces) {
        for (Extent& c : e.coefficient) c *= extent;
        e.coefficient[axis++] = 1;
      }
    }
    while (!in_memory(reshape_base(values_, id))) {
      if (!at(id).is_view()) return false;
      std::vector<LinearBound> bounds;
      auto next = through_view(at(id), at(at(id).in[0]).shape, index, extents, bounds, split);
      if (!next || !bounds.empty()) return false;
      index = std::move(*next);
      id = at(id).in[0];
    }
    base = reshape_base(values_, id);
    // A reshape of dense memory does not change the element number.
    if (id != base && !is_dense(at(base))) return false;
    Linear address(0);
    if (id == base) {
      address = address_of(at(id), index, extents.size());
    } else {
      address = flatten(index, at(id).shape, extents.size());
      address.offset += at(base).home_offset;
    }
    offset = address.offset;
    return join(address);
  }

  // Finds a single stride for all axes of each dimension; false if there is none.
  bool join(const Linear& address) {
    strides.clear();
    std::size_t axis = 0;
    for (const auto& pieces : pieces_) {
      Extent stride = address.coefficient[axis], walked = 1;
      for (std::size_t k = pieces.size(); k-- > 0;) {
        if (pieces[k] == 1) continue;
        if (walked == 1) stride = address.coefficient[axis + k];
        if (address.coefficient[axis + k] != stride * walked) return false;
        walked *= pieces[k];
      }
      strides.push_back(stride);
      axis += pieces.size();
    }
    return true;
  }

  void cut(const AxisSplit& split) {
    std::size_t axis = split.axis;
    for (auto& pieces : pieces_) {
      if (axis >= pieces.size()) {
        axis -= pieces.size();
        continue;
      }
      pieces[axis] /= split.inner;
      pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(axis) + 1, split.inner);
      return;
    }
  }

  const std::vector<Value>& values_;
  const std::vector<bool>& stored_;
  std::vector<std::vector<Extent>> pieces_;  // for each dimension, the extents of its axes
};

}  // namespace

MatrixView matrix_view(const StoredValues& plan, int id) {
  const Shape& shape = plan.values[static_cast<std::size_t>(id)].shape;
  const int rank = shape.rank();
  Walk walk(plan, shape);
  if (!walk.run(id)) return {};
  MatrixView view;
  view.base = walk.base;
  view.offset = walk.offset;
  const Extent rows = shape[rank - 2], columns = shape[rank - 1];
  const Extent r = walk.strides[static_cast<std::size_t>(rank) - 2],
               c = walk.strides[static_cast<std::size_t>(rank) - 1];
  if (rank == 3) view.batch_stride = walk.strides[0];
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

StridedView strided_view(const StoredValues& plan, int id) {
  const Shape& shape = plan.values[static_cast<std::size_t>(id)].shape;
  Walk walk(plan, shape);
  if (!walk.run(id)) return {};
  const bool contiguous = shape[shape.rank() - 1] == 1 || walk.strides.back() == 1;
  const bool forwards = std::all_of(walk.strides.begin(), walk.strides.end(),
                                    [](Extent stride) { return stride >= 0; });
  if (!contiguous || !forwards) return {};
  return {walk.base, walk.strides, walk.offset};
}

bool lies_as(const StoredValues& plan, int id, OperandLayout layout) {
  switch (layout) {
    case OperandLayout::Dense:
      return false;
    case OperandLayout::Matrix:
      return matrix_view(plan, id).base >= 0;
    case OperandLayout::Strided:
      return strided_view(plan, id).base >= 0;
  }
  return false;
}

}  // namespace volta::plan
