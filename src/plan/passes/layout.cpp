// Stores images between convolutions with channels last, although every operation is written for
// channels second. Elementwise operations and reductions over windows of such images are rewritten
// to compute in that order, followed by a view. Kernels and libraries then find contiguous
// channels, and only the edges of a network change the layout.
#include <algorithm>
#include <utility>

#include "plan/passes/passes.h"
#include "plan/passes/rewrite.h"

namespace volta::plan {
namespace {

bool is_image(const Value& v) { return v.shape.rank() >= 3; }

// Whether both are images with the same numbers of images and channels.
bool same_channels(const Value& a, const Value& b) {
  return is_image(a) && is_image(b) && a.shape[0] == b.shape[0] && a.shape[1] == b.shape[1];
}

// The sizes other than 1.
std::vector<Extent> extents(const Shape& shape) {
  std::vector<Extent> result;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(result),
               [](Extent extent) { return extent != 1; });
  return result;
}

// Whether one is a line of pixels and the other the same line as an image of height 1.
bool is_line(const Value& to, const Value& from) {
  return to.kind == ValueKind::Reshape && same_channels(to, from) &&
         extents(to.shape) == extents(from.shape);
}

// Finds the values that are best stored with channels last: the requested ones, and those that are
// computed from them, or that they are computed from, element by element.
class Preference {
 public:
  Preference(const Values& values, const std::vector<ValueId>& asked)
      : values_(values), last_(values, false) {
    for (const ValueId id : asked) last_[id] = is_image(at(id));
  }

  PerValue<bool> run() {
    do {
      changed_ = false;
      for (const ValueId id : values_.ids()) take_over(id);
      for (const ValueId id : values_.ids().backwards()) hand_down(id);
    } while (changed_);
    return std::move(last_);
  }

 private:
  const Value& at(ValueId id) const { return values_[id]; }

  void mark(ValueId id) {
    if (last_[id]) return;
    last_[id] = true;
    changed_ = true;
  }

  // The images that a value is computed from: operands of its own shape, the operand of a view, or
  // the images behind reduced windows.
  std::vector<ValueId> images_of(const Value& v) const {
    std::vector<ValueId> images;
    if (!is_image(v)) return images;
    if (v.is_pointwise()) {
      for (const ValueId in : v.in) {
        if (!in.is_none() && at(in).kind != ValueKind::Expand) images.push_back(in);
      }
    } else if (v.kind == ValueKind::Pad || v.kind == ValueKind::Shrink ||
               v.kind == ValueKind::Affine) {
      if (same_channels(v, at(v.in[0])) && v.shape.rank() == at(v.in[0]).shape.rank())
        images.push_back(v.in[0]);
    } else if (v.kind == ValueKind::Reshape) {
      if (is_line(v, at(v.in[0]))) images.push_back(v.in[0]);
    } else if (v.kind == ValueKind::Reduce && v.in[1].is_none()) {
      ValueId id = v.in[0];
      while (at(id).is_view() && at(id).shape.rank() > v.shape.rank()) id = at(id).in[0];
      if (same_channels(v, at(id)) && at(id).shape.rank() == v.shape.rank()) images.push_back(id);
    }
    return images;
  }

  void take_over(ValueId id) {
    if (last_[id]) return;
    for (const ValueId image : images_of(values_[id])) {
      if (last_[image]) mark(id);
    }
  }
  void hand_down(ValueId id) {
    if (!last_[id]) return;
    for (const ValueId image : images_of(values_[id])) mark(image);
  }

  const Values& values_;
  PerValue<bool> last_;
  bool changed_ = false;
};

// The order 0, 2, 3, ..., 1.
std::vector<std::int64_t> to_last(int rank) {
  std::vector<std::int64_t> order{0};
  for (int axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  return order;
}
Shape moved(const Shape& shape, const std::vector<std::int64_t>& order) {
  std::vector<Extent> sizes;
  for (const std::int64_t axis : order) sizes.push_back(shape[static_cast<int>(axis)]);
  return Shape(sizes);
}

// Builds the value, with channels last if requested and possible.
Expr rebuilt(ValueBuilder& builder, Value v, bool channels_last) {
  const Expr operand{&builder, v.in[0]};
  const int rank = v.shape.rank();
  if (v.kind == ValueKind::Permute) {
    const Expr view = builder.permute(operand, fixed(v.attrs));
    return v.stored ? builder.stored(view) : view;
  }
  if (!channels_last) return builder.insert(std::move(v));
  if (v.kind == ValueKind::Reshape && is_line(v, builder.at(operand))) {
    const Expr image = builder.permute(operand, to_last(operand.shape().rank()));
    return builder.permute(builder.reshape(image, moved(v.shape, to_last(rank))),
                           channels_second(rank));
  }
  if (v.is_pointwise()) {
    for (ValueId& in : v.in) {
      if (!in.is_none()) in = builder.permute({&builder, in}, to_last(rank)).id;
    }
  } else if (v.kind == ValueKind::Reduce && v.in[1].is_none()) {
    // The remaining axes change places; the reduced ones keep theirs.
    PerAxis<std::int64_t> order, kept;
    const int full = operand.shape().rank();
    for (std::int64_t axis = 0; axis < full; ++axis) {
      order.add(axis);
      if (std::find(v.attrs.begin(), v.attrs.end(), axis) == v.attrs.end()) kept.add(axis);
    }
    const std::vector<std::int64_t> last = to_last(rank);
    for (const AxisId k : kept.ids()) order[kept[k]] = kept[last[k.index()]];
    v.in[0] = builder.permute(operand, order).id;
  } else {
    return builder.insert(std::move(v));
  }
  v.shape = moved(v.shape, to_last(rank));
  return builder.permute(builder.insert(std::move(v)), channels_second(rank));
}

}  // namespace

void lay_out_images(Graph& graph) {
  const std::vector<ValueId> asked = std::exchange(graph.channels_last, {});
  if (asked.empty()) return;
  const PerValue<bool> last = Preference(graph.values, asked).run();
  rebuild(graph, [&](Rebuild& all, ValueId id, Value v) {
    return rebuilt(all.builder, std::move(v), last[id]);
  });
}

}  // namespace volta::plan
