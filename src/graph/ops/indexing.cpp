// Indexing: checks entries against the shape and records the reads of selections.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>

#include "backend/registry.h"
#include "graph/attributes/selection.h"
#include "graph/record/apply.h"
#include "graph/record/evaluation.h"
#include "graph/record/tape_extras.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {
namespace graph {
namespace {

using Kind = Pick::Kind;

// The number of source axes that an entry consumes.
int axes_of(const Index& index) {
  const auto& entry = index.entry();
  if (std::holds_alternative<NewAxis>(entry) || std::holds_alternative<Ellipsis>(entry)) return 0;
  const Tensor* tensor = std::get_if<Tensor>(&entry);
  const bool mask = tensor != nullptr && tensor->dtype() == DType::boolean;
  return mask ? tensor->rank() : 1;
}

Pick pick_number(const char* op, const Shape& shape, int axis, std::int64_t number) {
  const std::int64_t size = shape[axis];
  if (number < -size || number >= size) {
    throw IndexError(fmt::format("{}: {} is out of range [{}, {}) along axis {} of {}", op, number,
                                 -size, size, axis, to_string(shape)));
  }
  return {.kind = Kind::at, .start = number < 0 ? number + size : number};
}

// Negative bounds count from the end; then both are clamped to the axis.
Pick pick_range(const char* op, const Shape& shape, int axis, const Slice& range) {
  const std::int64_t step = range.step.value_or(1);
  if (step == 0 || step == std::numeric_limits<std::int64_t>::min())
    throw ArgumentError(fmt::format("{}: step {} along axis {}", op, step, axis));
  const std::int64_t size = shape[axis], low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto bound = [&](std::optional<std::int64_t> given, std::int64_t otherwise) {
    if (!given) return otherwise;
    return std::clamp(*given < 0 ? *given + size : *given, low, high);
  };
  const std::int64_t from = bound(range.start, step > 0 ? low : high),
                     to = bound(range.stop, step > 0 ? high : low);
  const std::int64_t distance = step > 0 ? to - from : from - to;
  const std::int64_t count = distance <= 0 ? 0 : (distance - 1) / std::abs(step) + 1;
  // With at most one element every step is equivalent, so 1 is used.
  return {.kind = Kind::range,
          .start = count == 0 ? 0 : from,
          .step = count > 1 ? step : 1,
          .size = count};
}

Pick pick_tensor(const char* op, const Shape& shape, int axis, const Tensor& tensor) {
  if (is_floating(tensor.dtype())) throw_dtype(op, tensor.dtype(), "integer or bool indices");
  if (tensor.dtype() != DType::boolean) return {.kind = Kind::integers, .indices = tensor};
  bool fits = tensor.rank() > 0;
  for (int i = 0; fits && i < tensor.rank(); ++i) fits = tensor.shape()[i] == shape[axis + i];
  if (!fits) {
    throw ShapeError(fmt::format("{}: a mask of {} does not fit axis {} of {}", op,
                                 to_string(tensor.shape()), axis, to_string(shape)));
  }
  return {.kind = Kind::mask, .indices = tensor};
}

bool is_whole(const Pick& pick, std::int64_t size) {
  return pick.kind == Kind::range && pick.start == 0 && pick.step == 1 && pick.size == size;
}

Pick whole(std::int64_t size) { return {.kind = Kind::range, .size = size}; }

int source_axes(const Pick& pick) {
  return pick.kind == Kind::fresh ? 0 : pick.kind == Kind::mask ? pick.indices.rank() : 1;
}

}  // namespace

Picks parse_picks(const char* op, const Shape& shape, std::span<const Index> entries) {
  int taken = 0, ellipses = 0;
  for (const Index& index : entries) {
    if (const Tensor* tensor = std::get_if<Tensor>(&index.entry()))
      require_defined(op, *tensor, "an index");
    taken += axes_of(index);
    ellipses += std::holds_alternative<Ellipsis>(index.entry()) ? 1 : 0;
  }
  if (ellipses > 1) throw ArgumentError(fmt::format("{}: more than one ellipsis", op));
  if (taken > shape.rank()) {
    throw ShapeError(fmt::format("{}: entries for {} axes, {} has {}", op, taken, to_string(shape),
                                 shape.rank()));
  }
  Picks picks;
  int axis = 0;
  const auto whole_axes = [&](int count) {
    for (; count > 0; --count) picks.push_back(whole(shape[axis++]));
  };
  for (const Index& index : entries) {
    const auto& entry = index.entry();
    if (std::holds_alternative<Ellipsis>(entry)) {
      whole_axes(shape.rank() - taken);
    } else if (std::holds_alternative<NewAxis>(entry)) {
      picks.push_back({.kind = Kind::fresh});
    } else {
      if (const auto* number = std::get_if<std::int64_t>(&entry)) {
        picks.push_back(pick_number(op, shape, axis, *number));
      } else if (const auto* range = std::get_if<Slice>(&entry)) {
        picks.push_back(pick_range(op, shape, axis, *range));
      } else {
        picks.push_back(pick_tensor(op, shape, axis, std::get<Tensor>(entry)));
      }
      axis += source_axes(picks.back());
    }
  }
  whole_axes(shape.rank() - axis);
  return picks;
}

bool has_tensors(const Picks& picks) {
  return std::any_of(picks.begin(), picks.end(), [](const Pick& pick) {
    return pick.kind == Kind::integers || pick.kind == Kind::mask;
  });
}

Shape view_shape(const Shape& source, const Picks& picks) {
  std::vector<std::int64_t> sizes;
  int axis = 0;
  for (const Pick& pick : picks) {
    if (pick.kind == Kind::range || pick.kind == Kind::fresh) sizes.push_back(pick.size);
    const bool tensor = pick.kind == Kind::integers || pick.kind == Kind::mask;
    for (int i = 0; tensor && i < source_axes(pick); ++i) sizes.push_back(source[axis + i]);
    axis += source_axes(pick);
  }
  return Shape(sizes, "index");
}

Tensor view_of(const Tensor& source, const Picks& picks, SourceLocation place) {
  const Shape& shape = source.shape();
  const std::size_t rank = static_cast<std::size_t>(shape.rank());
  std::vector<std::int64_t> start(rank, 0), step(rank, 1), size(shape.begin(), shape.end());
  std::size_t axis = 0;
  bool all = true, steps = false;
  for (const Pick& pick : picks) {
    if (pick.kind == Kind::at || pick.kind == Kind::range) {
      all = all && is_whole(pick, size[axis]);
      steps = steps || pick.step != 1;
      start[axis] = pick.start;
      step[axis] = pick.step;
      size[axis] = pick.size;
    }
    axis += static_cast<std::size_t>(source_axes(pick));
  }
  Tensor part = source;
  if (!all) {
    std::vector<std::int64_t> attrs = start;
    if (steps) attrs.insert(attrs.end(), step.begin(), step.end());
    attrs.insert(attrs.end(), size.begin(), size.end());
    part = apply(steps ? OpId::stride : OpId::shrink, {&source, 1}, attrs, Shape(size),
                 source.dtype(), place);
  }
  return reshape_to(part, view_shape(shape, picks), place);
}

std::optional<Picks> compose(const Shape& source, const Picks& outer, const Picks& inner) {
  const bool simple = std::all_of(outer.begin(), outer.end(), [](const Pick& pick) {
    return pick.kind == Kind::at || pick.kind == Kind::range;
  });
  if (!simple) return std::nullopt;
  Picks result;
  std::size_t axis = 0;  // axis of the source; each axis has one pick in `outer`
  const auto pass_numbers = [&] {
    while (axis < outer.size() && outer[axis].kind == Kind::at) result.push_back(outer[axis++]);
  };
  for (Pick pick : inner) {
    if (pick.kind != Kind::fresh) pass_numbers();
    if (pick.kind == Kind::at || pick.kind == Kind::range) {
      const Pick& from = outer[axis++];
      pick.start = from.start + pick.start * from.step;
      pick.step *= from.step;
    }
    for (int i = 0; pick.indices.defined() && i < source_axes(pick); ++i, ++axis) {
      if (!is_whole(outer[axis], source[static_cast<int>(axis)])) return std::nullopt;
    }
    result.push_back(std::move(pick));
  }
  pass_numbers();
  return result;
}

IndexLayout::IndexLayout(const Shape& source, std::int64_t bits, std::span<const Shape> indices) {
  for (int axis = 0; axis < source.rank(); ++axis) {
    const bool picked = (bits >> axis & 1) != 0;
    (picked ? indexed : kept).push_back(axis);
    (picked ? rows : columns) *= source[axis];
  }
  for (const Shape& shape : indices) at = broadcast_shapes("index", at, shape);
  count = at.numel();
  const auto with = [&](Shape first) {
    std::vector<std::int64_t> sizes(first.begin(), first.end());
    for (const std::int64_t axis : kept) sizes.push_back(source[static_cast<int>(axis)]);
    return Shape(sizes);
  };
  std::vector<std::int64_t> sizes;
  for (const std::int64_t axis : indexed) sizes.push_back(source[static_cast<int>(axis)]);
  by_row = with(Shape(sizes));
  by_index = with(at);
  rows_first = indexed;
  rows_first.insert(rows_first.end(), kept.begin(), kept.end());
  // If the indexed axes are adjacent, the axes of the indices replace them; otherwise they come
  // first.
  const bool together = indexed.back() - indexed.front() + 1 == std::ssize(indexed);
  const std::int64_t before = together ? indexed.front() : 0;
  to_result.resize(static_cast<std::size_t>(by_index.rank()));
  std::iota(to_result.begin(), to_result.end(), 0);
  std::rotate(to_result.begin(), to_result.begin() + at.rank(),
              to_result.begin() + at.rank() + before);
  std::vector<std::int64_t> final_sizes;
  for (const std::int64_t axis : to_result) final_sizes.push_back(by_index[static_cast<int>(axis)]);
  result = Shape(final_sizes);
}

int lone_mask_axis(const Picks& picks, const Pick*& mask) {
  int axis = 0, found = -1, tensors = 0;
  for (const Pick& pick : picks) {
    if (pick.indices.defined()) ++tensors;
    if (pick.kind == Kind::mask) {
      found = axis;
      mask = &pick;
    }
    if (pick.kind != Kind::at) ++axis;
  }
  return tensors == 1 ? found : -1;
}

IndexedView indexed_view(const char* op, const Tensor& source, const Picks& picks,
                         SourceLocation place) {
  IndexedView result;
  result.view = view_of(source, picks, place);
  // The axes of a mask are merged into one, and its true elements become positions on that axis.
  std::vector<std::int64_t> sizes;
  std::vector<Tensor> operands{result.view};
  int axis = 0;
  for (const Pick& pick : picks) {
    if (pick.kind == Kind::at) continue;
    if (pick.indices.defined()) {
      result.bits |= std::int64_t{1} << sizes.size();
      operands.push_back(pick.indices);
    }
    const bool mask = pick.kind == Kind::mask;
    std::int64_t size = 1;
    for (int i = 0; i < (mask ? source_axes(pick) : 1); ++i) size *= result.view.shape()[axis++];
    sizes.push_back(size);
  }
  agree_on_device(op, operands, place);
  result.view = reshape_to(operands[0], Shape(sizes), place);
  for (std::size_t i = 1; i < operands.size(); ++i) {
    Tensor& index = operands[i];
    if (index.dtype() == DType::boolean) {
      const Tensor flat = reshape_to(index, Shape{index.numel()}, place);
      index = true_positions(flat, count_true(flat, place), place);
    }
    result.indices.push_back(index.dtype() == DType::u8 ? index.to(DType::i64, place) : index);
  }
  return result;
}

Tensor index_with(const IndexedView& from, SourceLocation place) {
  std::vector<Shape> shapes;
  std::vector<Tensor> inputs{from.view};
  for (const Tensor& index : from.indices) {
    shapes.push_back(index.shape());
    inputs.push_back(index);
  }
  const IndexLayout layout(from.view.shape(), from.bits, shapes);
  if (layout.rows == 0 && layout.count > 0) {
    throw ShapeError(fmt::format("index: nothing to index in {}", to_string(from.view.shape())));
  }
  return apply(OpId::index, inputs, {&from.bits, 1}, layout.result, from.view.dtype(), place);
}

Tensor read_picks(const Tensor& source, const Picks& picks, SourceLocation place) {
  if (!has_tensors(picks)) {
    Tensor view = view_of(source, picks, place);
    const bool same = TensorAccess::variable(view) == TensorAccess::variable(source);
    return same ? source.clone(place) : view;  // a clone, so that the result is a new variable
  }
  const Pick* mask = nullptr;
  if (lone_mask_axis(picks, mask) == 0) {
    Tensor sides[2] = {view_of(source, picks, place), mask->indices};
    agree_on_device("index", sides, place);
    const Shape& shape = sides[0].shape();
    const Tensor flat = reshape_to(sides[1], Shape{mask->indices.numel()}, place);
    std::vector<std::int64_t> sizes{count_true(flat, place)};
    sizes.insert(sizes.end(), shape.begin() + mask->indices.rank(), shape.end());
    std::int64_t columns = 1;
    for (std::size_t i = 1; i < sizes.size(); ++i) columns *= sizes[i];
    const Tensor rows = reshape_to(sides[0], Shape{flat.numel(), columns}, place);
    return reshape_to(rows_at_true(rows, flat, sizes[0], 0, place), Shape(sizes), place);
  }
  return index_with(indexed_view("index", source, picks, place), place);
}

void DropPendingRead::operator()(PendingRead* read) const { delete read; }

namespace {

// Restores the recording state of the time when the selection was made.
class AsSelected {
 public:
  explicit AsSelected(const PendingRead& read)
      : mode_(std::exchange(grad_mode(), read.history)),
        collector_(recording_state.collector),
        epoch_(std::exchange(recording_state.epoch, read.epoch)) {
    if (read.collector != collector_) recording_state.collector = nullptr;
  }
  ~AsSelected() {
    grad_mode() = mode_;
    recording_state.collector = collector_;
    recording_state.epoch = epoch_;
  }
  AsSelected(const AsSelected&) = delete;
  AsSelected& operator=(const AsSelected&) = delete;

 private:
  bool mode_;
  TapeCollector* collector_;
  std::uint32_t epoch_;
};

// The source with its value at the time of the selection.
Tensor source_of(const PendingRead& read) {
  const Tensor& source = read.target->source;
  const Variable& now = *TensorAccess::variable(source);
  if (now.node.get() == read.node.get() && now.tape.get() == read.tape.get() &&
      now.requires_grad == read.requires_grad)
    return source;
  if (read.tape || !read.requires_grad || !read.history)
    return TensorAccess::make(read.node, read.tape);
  return leaf_as_it_was(source, read.node, read.target->place);
}

}  // namespace

void record_read(Variable& variable) {
  PendingRead& read = *variable.extras->read;
  const std::lock_guard guard(read.lock);
  if (!variable.unread.load(std::memory_order_relaxed)) return;  // another thread read it first
  const AsSelected scope(read);
  const Tensor value = read_picks(source_of(read), read.target->picks, read.target->place);
  const Variable& recorded = *TensorAccess::variable(value);
  variable.node = recorded.node;
  variable.tape = recorded.tape;
  read.target.reset();
  read.node = Held();
  read.tape = TapeRef();
  variable.unread.store(false, std::memory_order_release);
}

std::optional<PickedElement> picked_element(Variable& variable) {
  if (!variable.unread.load(std::memory_order_acquire)) return std::nullopt;
  PendingRead& read = *variable.extras->read;
  const std::lock_guard guard(read.lock);
  if (!variable.unread.load(std::memory_order_relaxed)) return std::nullopt;
  Node* const node = read.node.get();
  const bool lies_there =
      node->state.load(std::memory_order_acquire) == NodeState::Computed && node->errors == nullptr;
  if (!lies_there) return std::nullopt;
  std::int64_t element = 0;
  int axis = 0;
  for (const Pick& pick : read.target->picks) {
    const bool is_one = pick.kind == Kind::at || (pick.kind != Kind::mask && pick.size == 1);
    if (!is_one || pick.kind == Kind::integers) return std::nullopt;
    if (pick.kind != Kind::fresh) element = element * node->shape[axis++] + pick.start;
  }
  return PickedElement{read.node, element};
}

Selection SelectionAccess::make(std::shared_ptr<const Target> target) {
  const Variable& source = *TensorAccess::variable(target->source);
  std::unique_ptr<PendingRead, DropPendingRead> read(new PendingRead);
  read->target = target;
  read->node = source.node;
  read->history = grad_mode();
  if (read->history) read->tape = source.tape;
  read->requires_grad = source.requires_grad;
  read->collector = recording_state.collector;
  read->epoch = recording_state.epoch;
  Tensor value = TensorAccess::make(Held());
  Variable* variable = TensorAccess::variable(value);
  variable->own_extras().read = std::move(read);
  variable->unread.store(true, std::memory_order_release);
  return {std::move(value), std::move(target)};
}

namespace {

Selection select(const char* op, const Tensor& source, std::span<const Index> entries,
                 SourceLocation place) {
  require_defined(op, source, "the input");
  Picks picks = parse_picks(op, source.shape(), entries);
  return SelectionAccess::make(
      std::make_shared<const Target>(op, source, nullptr, std::move(picks), place));
}

// A selection from a selection, where the inner one can be written to as well.
Selection select_within(const char* op, const Selection& part,
                        const std::shared_ptr<const Target>& target, std::span<const Index> entries,
                        SourceLocation place) {
  if (target == nullptr) return select(op, part, entries, place);
  const Shape& whole = target->source.shape();
  if (!has_tensors(target->picks)) {
    Picks inner = parse_picks(op, view_shape(whole, target->picks), entries);
    if (auto picks = compose(whole, target->picks, inner)) {
      return SelectionAccess::make(std::make_shared<const Target>(op, target->source, target->outer,
                                                                  std::move(*picks), place));
    }
  }
  const Tensor& source = part;
  return SelectionAccess::make(std::make_shared<const Target>(
      op, source, target, parse_picks(op, source.shape(), entries), place));
}

std::vector<Index> slice_entries(const Shape& shape, std::int64_t axis,
                                 std::optional<std::int64_t> start,
                                 std::optional<std::int64_t> stop, std::int64_t step) {
  const int at = normalize_axis("slice", axis, shape);
  std::vector<Index> entries(static_cast<std::size_t>(at), Index(Slice{}));
  entries.emplace_back(Slice{start, stop, step});
  return entries;
}

}  // namespace
}  // namespace graph

Selection Tensor::operator[](const Index& index) const {
  return graph::select("index", *this, {&index, 1}, index.place());
}
Selection Tensor::index(std::initializer_list<Index> entries, SourceLocation place) const {
  return graph::select("index", *this, {entries.begin(), entries.size()}, place);
}
Selection Tensor::index(std::span<const Index> entries, SourceLocation place) const {
  return graph::select("index", *this, entries, place);
}
Selection Tensor::slice(std::int64_t axis, std::optional<std::int64_t> start,
                        std::optional<std::int64_t> stop, std::int64_t step,
                        SourceLocation place) const {
  graph::require_defined("slice", *this);
  return graph::select("slice", *this, graph::slice_entries(shape(), axis, start, stop, step),
                       place);
}

Selection Selection::operator[](const Index& index) && {
  return graph::select_within("index", *this, target_, {&index, 1}, index.place());
}
Selection Selection::index(std::initializer_list<Index> entries, SourceLocation place) && {
  return graph::select_within("index", *this, target_, {entries.begin(), entries.size()}, place);
}
Selection Selection::index(std::span<const Index> entries, SourceLocation place) && {
  return graph::select_within("index", *this, target_, entries, place);
}
Selection Selection::slice(std::int64_t axis, std::optional<std::int64_t> start,
                           std::optional<std::int64_t> stop, std::int64_t step,
                           SourceLocation place) && {
  // Usually the shape is known without reading the selection.
  const bool known = target_ != nullptr && !graph::has_tensors(target_->picks);
  const Shape whole = known ? graph::view_shape(target_->source.shape(), target_->picks) : shape();
  const auto entries = graph::slice_entries(whole, axis, start, stop, step);
  return graph::select_within("slice", *this, target_, entries, place);
}

}  // namespace volta
