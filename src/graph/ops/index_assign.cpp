// Assignments to selections. The new value of the whole source is recorded and assigned to the
// source's variable.
#include <fmt/format.h>

#include <algorithm>

#include "core/convert.h"
#include "graph/attributes/selection.h"
#include "graph/record/apply.h"
#include "graph/record/tape_extras.h"
#include "volta/error.h"
#include "volta/ops.h"
#include "volta/transfers.h"

namespace volta {
namespace graph {
namespace {

using Kind = Pick::Kind;

[[noreturn]] void throw_no_fit(const char* op, const Shape& value, const Shape& selection) {
  throw ShapeError(fmt::format("{}: {} does not go into a selection of {}", op, to_string(value),
                               to_string(selection)));
}

// Drops leading axes of size 1 that the selection does not have. Throws if the value does not
// broadcast to the selection.
Tensor fitted(const char* op, const Tensor& value, const Shape& selection, SourceLocation place) {
  std::span<const std::int64_t> sizes = value.shape().sizes();
  const std::size_t rank = static_cast<std::size_t>(selection.rank());
  while (sizes.size() > rank && sizes.front() == 1) sizes = sizes.subspan(1);
  bool fits = sizes.size() <= rank;
  for (std::size_t i = 0; fits && i < sizes.size(); ++i) {
    const std::int64_t wanted = selection[static_cast<int>(rank - sizes.size() + i)];
    fits = sizes[i] == wanted || sizes[i] == 1;
  }
  if (!fits) throw_no_fit(op, value.shape(), selection);
  return reshape_to(value, Shape(sizes), place);
}

// The attributes and inputs of put_slice for picks that are numbers and ranges.
struct Region {
  Region(const Tensor& source, const Picks& picks) {
    for (const Pick& pick : picks) {
      const bool number = pick.kind == Kind::at;
      if (pick.kind == Kind::fresh) continue;
      attrs.insert(attrs.end(), {number ? -1 : pick.start, pick.step, pick.size});
      if (number) starts.push_back(argument(pick.start, source.device()));
      empty = empty || pick.size == 0;
    }
  }
  std::vector<std::int64_t> attrs{0};
  std::vector<Tensor> starts;
  bool empty = false;
};

Tensor put(const Tensor& source, const Tensor& value, const Region& region, SourceLocation place) {
  std::vector<Tensor> inputs{source, value};
  inputs.insert(inputs.end(), region.starts.begin(), region.starts.end());
  return apply(OpId::put_slice, inputs, region.attrs, source.shape(), source.dtype(), place);
}

// Reshapes the value so that it has one axis for each axis of the source.
Tensor over_source(const Tensor& value, const Picks& picks, SourceLocation place) {
  std::vector<std::int64_t> sizes;
  int at = value.rank() - 1;
  for (auto pick = picks.rbegin(); pick != picks.rend(); ++pick) {
    if (pick->kind == Kind::at) {
      sizes.push_back(1);
      continue;
    }
    const std::int64_t size = at >= 0 ? value.shape()[at] : 1;
    --at;
    if (pick->kind != Kind::fresh) sizes.push_back(size);
  }
  std::reverse(sizes.begin(), sizes.end());
  return reshape_to(value, Shape(sizes), place);
}

// `source` with the value written to the region that numbers and ranges pick.
Tensor with_region(const char* op, const Tensor& source, const Picks& picks, const Tensor& value,
                   SourceLocation place) {
  const Tensor fits = fitted(op, value, view_shape(source.shape(), picks), place);
  const Region region(source, picks);
  if (region.empty) return source;
  return put(source, over_source(fits, picks, place), region, place);
}

// Reshapes a mask [m...] so that it broadcasts against the view's axes from `axis` on.
Tensor beside(const Tensor& mask, int axis, int rank, SourceLocation place) {
  std::vector<std::int64_t> sizes(mask.shape().begin(), mask.shape().end());
  sizes.resize(static_cast<std::size_t>(rank - axis), 1);
  return reshape_to(mask, Shape(sizes), place);
}

// `view` with the value written where the mask, which covers its axes from `axis` on, is true.
Tensor with_masked(const char* op, const Tensor& view, const Tensor& mask, int axis,
                   const Tensor& value, SourceLocation place) {
  const Shape& shape = view.shape();
  const int after = shape.rank() - axis - mask.rank();  // axes after the mask's
  std::vector<std::int64_t> sizes(shape.begin(), shape.begin() + axis);
  sizes.push_back(1);
  sizes.insert(sizes.end(), shape.end() - after, shape.end());
  const Tensor wide = beside(mask, axis, shape.rank(), place);
  const bool one_for_all = value.rank() <= after || value.shape()[value.rank() - 1 - after] == 1;
  if (one_for_all) {
    const Tensor fits = fitted(op, value, Shape(sizes), place);
    std::vector<std::int64_t> spread(fits.shape().begin(), fits.shape().end());
    if (fits.rank() > after) {
      spread.insert(spread.end() - after, static_cast<std::size_t>(mask.rank() - 1), 1);
    }
    return where(wide, {reshape_to(fits, Shape(spread), place), place}, {view, place});
  }
  sizes[static_cast<std::size_t>(axis)] = count_true(mask, place);
  const Shape selection(sizes);
  const Tensor fits = fitted(op, value, selection, place);
  // The masked axes come first, as rows.
  const Tensor all = expand_to(fits, selection, place);
  const Tensor rows_first = axis == 0 ? all : all.transpose(0, axis, place);
  const std::int64_t count = selection[axis], columns = count == 0 ? 0 : selection.numel() / count;
  if (columns == 0) return view;
  const Tensor flat = reshape_to(mask, Shape{mask.numel()}, place);
  const Tensor laid =
      rows_to_true(reshape_to(rows_first, Shape{count, columns}, place), flat, place);
  if (axis == 0) return where(wide, {reshape_to(laid, shape, place), place}, {view, place});
  const Shape merged = selection.with(axis, mask.numel());
  std::vector<std::int64_t> transposed(merged.begin(), merged.end());
  std::swap(transposed[0], transposed[static_cast<std::size_t>(axis)]);
  const Tensor back = reshape_to(laid, Shape(transposed), place).transpose(0, axis, place);
  return where(wide, {reshape_to(back, shape, place), place}, {view, place});
}

Tensor with_indexed(const char* op, const IndexedView& at, const Tensor& value,
                    SourceLocation place) {
  std::vector<Shape> shapes;
  for (const Tensor& index : at.indices) shapes.push_back(index.shape());
  const IndexLayout layout(at.view.shape(), at.bits, shapes);
  if (layout.rows == 0 && layout.count > 0) {
    throw ShapeError(fmt::format("{}: nothing to index in {}", op, to_string(at.view.shape())));
  }
  const Tensor fits = fitted(op, value, layout.result, place);
  std::vector<Tensor> inputs{at.view, fits};
  inputs.insert(inputs.end(), at.indices.begin(), at.indices.end());
  const Shape results[] = {at.view.shape(), Shape{layout.rows}};
  const DType dtypes[] = {at.view.dtype(), DType::i64};
  return apply_multi(OpId::index_put, inputs, {&at.bits, 1}, results, dtypes, place)[0];
}

// The source with the value written to the selected part. The value has the source's dtype and
// device.
Tensor written(const Target& target, const Tensor& value, SourceLocation place) {
  const Tensor& source = target.source;
  if (!has_tensors(target.picks)) return with_region(target.op, source, target.picks, value, place);
  // Index tensors select from the view that numbers and ranges select.
  Picks rest, tensors = target.picks;
  int axis = 0;
  for (Pick& pick : tensors) {
    pick.indices = pick.indices.defined() ? pick.indices.to(source.device(), place) : Tensor();
    const int axes = pick.kind == Kind::mask ? pick.indices.rank() : 1;
    if (pick.indices.defined()) {
      for (int i = 0; i < axes; ++i)
        rest.push_back({.kind = Kind::range, .size = source.shape()[axis + i]});
    } else {
      rest.push_back(pick);
    }
    if (pick.kind != Kind::fresh) axis += axes;
  }
  const Tensor view = view_of(source, rest, place);
  const Pick* mask = nullptr;
  const int masked = lone_mask_axis(tensors, mask);
  Tensor part;
  if (masked >= 0) {
    part = with_masked(target.op, view, mask->indices, masked, value, place);
  } else {
    const IndexedView at = indexed_view(target.op, source, tensors, place);
    part = reshape_to(with_indexed(target.op, at, value, place), view.shape(), place);
  }
  if (TensorAccess::variable(view) == TensorAccess::variable(source)) return part;
  return with_region(target.op, source, rest, part, place);
}

// Assigns the new value to the source, and to the tensor that the source was itself selected from.
void give(const Target& target, const Tensor& now, const char* op, SourceLocation place) {
  if (target.outer != nullptr) {
    const Target& outer = *target.outer;
    give(outer, written(outer, now, place), outer.op, place);
  }
  replace_value(target.source, now, op);
}

void write(const Target& target, const Tensor& value, SourceLocation place) {
  give(target, written(target, value, place), target.op, place);
}

// The value as a tensor with the dtype and device of the source.
Tensor converted(const Target& target, const Operand& value) {
  const DType dtype = target.source.dtype();
  const Device device = target.source.device();
  if (value.is_scalar()) {
    require_fits(target.op, value.scalar(), dtype);
    return number(value.scalar(), dtype, device);
  }
  require_defined(target.op, value.tensor(), "the value");
  const TransferReason reason("assignment", value.place());
  return value.tensor().to(device, value.place()).to(dtype, value.place());
}

// x[i] op= v. If numbers and ranges select, the operation runs on every element of the source, with
// a neutral operand outside the selection. Each element then depends only on itself, so that the
// source can be updated in place.
void update(const Target& target, const Tensor& selection, OpId op, const char* name,
            const Operand& value) {
  const Tensor& source = target.source;
  const SourceLocation place = value.place();
  if (!value.is_scalar()) require_defined(name, value.tensor(), "the value");
  if (has_tensors(target.picks)) {
    const Tensor result = binary(op, Operand(selection, place), value);
    require_fits_in_place(name, result.dtype(), source.dtype());
    return write(target, result.to(source.dtype(), place), place);
  }
  Region region(source, target.picks);
  Tensor beside;
  if (!value.is_scalar()) {
    const double neutral = op == OpId::add || op == OpId::sub ? 0 : 1;
    const TransferReason reason("assignment", place);
    const Tensor other = value.tensor().to(source.device(), place);
    const Tensor fits = fitted(name, other, view_shape(source.shape(), target.picks), place);
    const Tensor base = filled(source.shape(), neutral, other.dtype(), source.device());
    beside = region.empty ? base : put(base, over_source(fits, target.picks, place), region, place);
  }
  const Operand other = value.is_scalar() ? value : Operand(beside, place);
  const Tensor result = binary(op, Operand(source, place), other);
  require_fits_in_place(name, result.dtype(), source.dtype());
  region.attrs[0] = 1;  // the value covers the whole source
  const Tensor now =
      region.empty ? source : put(source, result.to(source.dtype(), place), region, place);
  give(target, now, name, place);
}

}  // namespace
}  // namespace graph

Tensor::Tensor(Selection&& selection) : variable_(nullptr) {
  graph::TensorAccess::variable(selection);
  std::swap(variable_, selection.variable_);
}

Selection::Selection(Tensor value, std::shared_ptr<const graph::Target> target) noexcept
    : Tensor(std::move(value)), target_(std::move(target)) {}
Selection::Selection(const Selection& other) noexcept = default;
Selection::Selection(Selection&& other) noexcept
    : Tensor(static_cast<Tensor&&>(other)), target_(std::move(other.target_)) {}
Selection::~Selection() = default;

Selection& Selection::operator=(const Selection& other) & noexcept {
  if (this == &other) return *this;
  Tensor::operator=(static_cast<const Tensor&>(other));
  target_ = other.target_;
  return *this;
}
Selection& Selection::operator=(Selection&& other) & noexcept {
  Tensor::operator=(static_cast<Tensor&&>(other));
  target_ = std::move(other.target_);
  return *this;
}
Selection& Selection::operator=(const Tensor& other) & noexcept {
  Tensor::operator=(other);
  target_.reset();
  return *this;
}
Selection& Selection::operator=(Tensor&& other) & noexcept {
  Tensor::operator=(std::move(other));
  target_.reset();
  return *this;
}

namespace {
void require_target(const char* op, const std::shared_ptr<const graph::Target>& target) {
  if (target == nullptr)
    throw ArgumentError(fmt::format("{}: the tensor is no longer a part of another", op));
}
}  // namespace

Selection Selection::operator=(const Operand& value) && {
  require_target("index", target_);
  graph::write(*target_, graph::converted(*target_, value), value.place());
  Selection& self = *this;
  self = graph::SelectionAccess::make(target_);  // a later read returns the written value
  return std::move(*this);
}
Selection Selection::operator=(const Selection& value) && {  // NOLINT: writes a value
  const SourceLocation place = target_ == nullptr ? SourceLocation() : target_->place;
  return std::move(*this) = Operand(value, place);
}
Selection Selection::operator=(Selection&& value) && {  // NOLINT: writes a value
  const SourceLocation place = target_ == nullptr ? SourceLocation() : target_->place;
  return std::move(*this) = Operand(value, place);
}

#define VOLTA_UPDATE(symbol, op)                                     \
  Selection Selection::operator symbol(const Operand & value)&& {    \
    require_target(#symbol, target_);                                \
    graph::update(*target_, *this, graph::OpId::op, #symbol, value); \
    Selection& self = *this;                                         \
    self = graph::SelectionAccess::make(target_);                    \
    return std::move(*this);                                         \
  }
VOLTA_UPDATE(+=, add)
VOLTA_UPDATE(-=, sub)
VOLTA_UPDATE(*=, mul)
VOLTA_UPDATE(/=, div)
#undef VOLTA_UPDATE

Selection Selection::fill_(Scalar value, SourceLocation place) && {
  return std::move(*this) = Operand(value, place);
}
Selection Selection::copy_(const Tensor& source, SourceLocation place) && {
  return std::move(*this) = Operand(source, place);
}

}  // namespace volta
