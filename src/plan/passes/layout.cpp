// Images between convolutions lie in memory with their channels last, though every operation is
// written for channels second. Element-wise operations and reductions over windows that deal with
// such images are rewritten to compute them in that order, and read back through a view; kernels
// and libraries then find contiguous channels, and only the edges of a network change layout.
#include <algorithm>
#include <utility>

#include "plan/ir.h"

namespace volta::plan {
namespace {

bool is_image(const Value& v) { return v.shape.rank() >= 3; }

// The same images, or as many with as many channels.
bool same_channels(const Value& a, const Value& b) {
  return is_image(a) && is_image(b) && a.shape[0] == b.shape[0] && a.shape[1] == b.shape[1];
}

bool is_pointwise(const Value& v) {
  return v.kind == ValueKind::Scalar || v.kind == ValueKind::Cast;
}

// Sizes without those of 1.
std::vector<std::int64_t> extents(const Shape& shape) {
  std::vector<std::int64_t> result;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(result),
               [](std::int64_t extent) { return extent != 1; });
  return result;
}

// A line of pixels as an image of height 1, or back.
bool is_line(const Value& to, const Value& from) {
  return to.kind == ValueKind::Reshape && same_channels(to, from) &&
         extents(to.shape) == extents(from.shape);
}

// Which values had better have their channels last: those asked for, and what is computed from
// them or leads to them element by element.
class Preference {
 public:
  Preference(const std::vector<Value>& values, const std::vector<int>& asked)
      : values_(values), last_(values.size(), false) {
    for (const int id : asked) last_[static_cast<std::size_t>(id)] = is_image(at(id));
  }

  std::vector<bool> run() {
    do {
      changed_ = false;
      for (std::size_t i = 0; i < values_.size(); ++i) take_over(i);
      for (std::size_t i = values_.size(); i-- > 0;) hand_down(i);
    } while (changed_);
    return std::move(last_);
  }

 private:
  const Value& at(int id) const { return values_[static_cast<std::size_t>(id)]; }

  void mark(int id) {
    const std::size_t i = static_cast<std::size_t>(id);
    if (last_[i]) return;
    last_[i] = true;
    changed_ = true;
  }

  // The images that a value is made of: operands of its own shape, what a view shows, or what
  // windows are reduced of.
  std::vector<int> images_of(const Value& v) const {
    std::vector<int> images;
    if (!is_image(v)) return images;
    if (is_pointwise(v)) {
      for (const int in : v.in) {
        if (in >= 0 && at(in).kind != ValueKind::Expand) images.push_back(in);
      }
    } else if (v.kind == ValueKind::Pad || v.kind == ValueKind::Shrink ||
               v.kind == ValueKind::Affine) {
      if (same_channels(v, at(v.in[0])) && v.shape.rank() == at(v.in[0]).shape.rank())
        images.push_back(v.in[0]);
    } else if (v.kind == ValueKind::Reshape) {
      if (is_line(v, at(v.in[0]))) images.push_back(v.in[0]);
    } else if (v.kind == ValueKind::Reduce && v.in[1] < 0) {
      int id = v.in[0];
      while (at(id).is_view() && at(id).shape.rank() > v.shape.rank()) id = at(id).in[0];
      if (same_channels(v, at(id)) && at(id).shape.rank() == v.shape.rank()) images.push_back(id);
    }
    return images;
  }

  void take_over(std::size_t i) {
    if (last_[i]) return;
    for (const int image : images_of(values_[i])) {
      if (last_[static_cast<std::size_t>(image)]) mark(static_cast<int>(i));
    }
  }
  void hand_down(std::size_t i) {
    if (!last_[i]) return;
    for (const int image : images_of(values_[i])) mark(image);
  }

  const std::vector<Value>& values_;
  std::vector<bool> last_;
  bool changed_ = false;
};

// 0, 2, 3, ..., 1
std::vector<std::int64_t> to_last(int rank) {
  std::vector<std::int64_t> order{0};
  for (int axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  return order;
}
// 0, last, 1, 2, ...
std::vector<std::int64_t> to_second(int rank) {
  std::vector<std::int64_t> order{0, rank - 1};
  for (int axis = 1; axis < rank - 1; ++axis) order.push_back(axis);
  return order;
}

Shape moved(const Shape& shape, const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t axis : order) sizes.push_back(shape[static_cast<int>(axis)]);
  return Shape(sizes);
}

}  // namespace

bool Lowering::has_channels_last(Expr images) const {
  constexpr int kFar = 64;
  std::vector<int> stack{images.id};
  for (int steps = 0; steps < kFar && !stack.empty(); ++steps) {
    const int id = stack.back();
    stack.pop_back();
    if (std::find(channels_last_.begin(), channels_last_.end(), id) != channels_last_.end())
      return true;
    const Value& v = values[static_cast<std::size_t>(id)];
    if (v.kind == ValueKind::Permute && v.attrs == std::vector<std::int64_t>{0, 3, 1, 2})
      return true;
    if (!is_pointwise(v)) continue;
    for (const int in : v.in) {
      if (in >= 0 && values[static_cast<std::size_t>(in)].kind != ValueKind::Expand)
        stack.push_back(in);
    }
  }
  return false;
}

Expr Lowering::rebuilt(Value v, bool channels_last) {
  const auto operand = [&](std::size_t k) { return Expr{this, v.in[k]}; };
  const int rank = v.shape.rank();
  if (v.kind == ValueKind::Permute) {
    const Expr view = permute(operand(0), v.attrs);
    return v.stored ? stored(view) : view;
  }
  if (!channels_last) return insert(std::move(v));
  if (v.kind == ValueKind::Reshape && is_line(v, at(operand(0)))) {
    const Expr image = permute(operand(0), to_last(operand(0).shape().rank()));
    return permute(reshape(image, moved(v.shape, to_last(rank))), to_second(rank));
  }
  if (is_pointwise(v)) {
    for (int& in : v.in) {
      if (in >= 0) in = permute({this, in}, to_last(rank)).id;
    }
  } else if (v.kind == ValueKind::Reduce && v.in[1] < 0) {
    // The axes that stay trade places; those reduced keep theirs.
    std::vector<std::int64_t> order, kept;
    const int full = operand(0).shape().rank();
    for (std::int64_t axis = 0; axis < full; ++axis) {
      order.push_back(axis);
      if (std::find(v.attrs.begin(), v.attrs.end(), axis) == v.attrs.end()) kept.push_back(axis);
    }
    const std::vector<std::int64_t> last = to_last(rank);
    for (std::size_t k = 0; k < kept.size(); ++k)
      order[static_cast<std::size_t>(kept[k])] = kept[static_cast<std::size_t>(last[k])];
    v.in[0] = permute(operand(0), order).id;
  } else {
    return insert(std::move(v));
  }
  v.shape = moved(v.shape, to_last(rank));
  return permute(insert(std::move(v)), to_second(rank));
}

void Lowering::lay_out_images() {
  if (channels_last_.empty()) return;
  const std::vector<bool> last = Preference(values, channels_last_).run();
  rebuild([&](std::size_t i, Value v, const std::vector<int>&) {
    return rebuilt(std::move(v), last[i]);
  });
}

}  // namespace volta::plan
