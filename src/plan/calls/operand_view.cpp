// Operands of products as strided matrices in memory.
#include <algorithm>

#include "plan/grouping.h"

namespace volta::plan {
namespace {

// Views followed down to memory. Dimensions of the matrix are cut into axes where a reshape asks
// for it, and put together again where memory is walked with one stride all the same.
class Walk {
 public:
  Walk(const std::vector<Value>& values, const std::vector<bool>& stored, const Shape& shape)
      : values_(values), stored_(stored) {
    for (const std::int64_t extent : shape) pieces_.push_back({extent});
  }

  // Whether it got to memory; `base`, `offset` and `strides` are then set.
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
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;  // per dimension of the matrix

 private:
  const Value& at(int id) const { return values_[static_cast<std::size_t>(id)]; }

  bool in_memory(int id) const {
    return stored_[static_cast<std::size_t>(id)] || at(id).kind == ValueKind::Leaf;
  }

  bool follow(int id, std::optional<AxisSplit>& split) {
    std::vector<std::int64_t> extents;
    for (const auto& pieces : pieces_) extents.insert(extents.end(), pieces.begin(), pieces.end());
    IndexMap index;
    std::size_t axis = 0;
    for (const auto& pieces : pieces_) {
      Linear& e = index.emplace_back(extents.size());
      for (const std::int64_t extent : pieces) {
        for (auto& c : e.coefficient) c *= extent;
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
    // A reshape of memory needs no following: the element number is the same.
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

  // One stride for all axes of a dimension, if there is one.
  bool join(const Linear& address) {
    strides.clear();
    std::size_t axis = 0;
    for (const auto& pieces : pieces_) {
      std::int64_t stride = address.coefficient[axis], walked = 1;
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
  std::vector<std::vector<std::int64_t>> pieces_;  // per dimension: the extents of its axes
};

}  // namespace

MatrixView matrix_view(const std::vector<Value>& values, const std::vector<bool>& stored, int id) {
  const Shape& shape = values[static_cast<std::size_t>(id)].shape;
  const int rank = shape.rank();
  Walk walk(values, stored, shape);
  if (!walk.run(id)) return {};
  MatrixView view;
  view.base = walk.base;
  view.offset = walk.offset;
  const std::int64_t rows = shape[rank - 2], columns = shape[rank - 1];
  const std::int64_t r = walk.strides[static_cast<std::size_t>(rank) - 2],
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

StridedView strided_view(const std::vector<Value>& values, const std::vector<bool>& stored,
                         int id) {
  const Shape& shape = values[static_cast<std::size_t>(id)].shape;
  Walk walk(values, stored, shape);
  if (!walk.run(id)) return {};
  const bool contiguous = shape[shape.rank() - 1] == 1 || walk.strides.back() == 1;
  const bool forwards = std::all_of(walk.strides.begin(), walk.strides.end(),
                                    [](std::int64_t stride) { return stride >= 0; });
  if (!contiguous || !forwards) return {};
  return {walk.base, walk.strides, walk.offset};
}

}  // namespace volta::plan
