// Emits values that a kernel computes at the points where they are used.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "plan/codegen/emitter.h"
#include "plan/codegen/kernel_builder.h"

namespace volta::plan {

using kernel::InstrKind;
using kernel::ScalarOp;

int Emitter::constant(double number, DType dtype) {
  InstrDraft draft{.instr = {.kind = InstrKind::Const}};
  draft.instr.dtype = dtype;
  draft.instr.constant = number;
  return append(std::move(draft));
}

int Emitter::scalar(ScalarOp op, DType dtype, int a, int b, int c) {
  InstrDraft draft{.instr = {.kind = InstrKind::Op}};
  draft.instr.op = op;
  draft.instr.dtype = dtype;
  draft.instr.a = a;
  draft.instr.b = b;
  draft.instr.c = c;
  return append(std::move(draft));
}

int Emitter::converted(int instruction, DType dtype) {
  if (instr(instruction).dtype == dtype) return instruction;
  InstrDraft draft{.instr = {.kind = InstrKind::Cast}};
  draft.instr.a = instruction;
  draft.instr.dtype = dtype;
  return append(std::move(draft));
}

int Emitter::emit_index(const Linear& e, DType dtype) {
  InstrDraft draft{.instr = {.kind = InstrKind::Index}};
  draft.instr.dtype = dtype;
  draft.index = e;
  return append(std::move(draft));
}

int Emitter::emit_value(ValueId id, Place place) {
  const Key key{Emitted::Value, id, place};
  if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
  const int result = compute(at(id), place);
  return memo_[key] = result;
}

int Emitter::compute(const Value& v, Place place) {
  switch (v.kind) {
    case ValueKind::Const:
      return constant(v.constant, v.dtype);
    case ValueKind::Size:
      return emit_size(v);
    case ValueKind::Arg:
      return emit_arg(v);
    case ValueKind::Iota:
      return emit_index(places_.indices[place.index][v.attrs[0].fixed()], v.dtype);
    case ValueKind::Philox:
      return emit_philox(v, place);
    case ValueKind::Cast:
      return emit_cast(v, place);
    case ValueKind::Bounded:
      return emit_bounded(v, place);
    case ValueKind::Placed:
      return emit(v.in[0], place);
    case ValueKind::Scalar:
      return emit_scalar(v, place);
    case ValueKind::Gather:
      return emit_gather(v, place);
    case ValueKind::Search:
      return emit_search(v, place);
    case ValueKind::Reshape:
    case ValueKind::Permute:
    case ValueKind::Expand:
    case ValueKind::Shrink:
    case ValueKind::Affine:
    case ValueKind::Pad:
      return emit_view(v, place);
    case ValueKind::Leaf:
    case ValueKind::Reduce:
    case ValueKind::Scan:
    case ValueKind::Call:
    case ValueKind::StepResult:
    case ValueKind::Join:
      break;
  }
  throw std::logic_error("planner: a value of memory was asked to be computed");
}

int Emitter::emit_size(const Value& v) {
  InstrDraft draft{.instr = {.kind = InstrKind::Index}};
  draft.instr.dtype = DType::i64;
  draft.index.offset = v.attrs[0];
  draft.is_size = true;
  return append(std::move(draft));
}

int Emitter::emit_arg(const Value& v) {
  InstrDraft draft{.instr = {.kind = InstrKind::Arg}};
  draft.instr.dtype = v.dtype;
  draft.instr.slot = static_cast<int>(draft_.args.size());
  draft_.args.push_back({v.number, v.dtype});
  return append(std::move(draft));
}

int Emitter::emit_philox(const Value& v, Place place) {
  InstrDraft draft{.instr = {.kind = InstrKind::Philox}};
  draft.instr.dtype = v.dtype;
  draft.instr.a = emit(v.in[0], {});
  draft.instr.b = emit(v.in[1], {});
  const Linear element = flatten(places_.indices[place.index], v.shape, axes());
  draft.index = Linear(axes());
  draft.index.add(element, v.attrs[0]);
  draft.index.offset += v.attrs[1];
  return append(std::move(draft));
}

int Emitter::emit_cast(const Value& v, Place place) {
  InstrDraft draft{.instr = {.kind = InstrKind::Cast}};
  draft.instr.a = emit(v.in[0], place);
  draft.instr.dtype = v.dtype;
  return append(std::move(draft));
}

int Emitter::emit_bounded(const Value& v, Place place) {
  InstrDraft draft{.instr = {.kind = InstrKind::Bounded}};
  draft.instr.a = emit(v.in[0], place);
  // In a padding there is no index to be out of range; what is loaded there is 0 already.
  if (place.mask != 0 && instr(draft.instr.a).kind != InstrKind::Load) {
    const int zero = constant(0, v.dtype), inside = emit_inside(place.mask);
    draft.instr.a = scalar(ScalarOp::where, v.dtype, inside, draft.instr.a, zero);
  }
  draft.instr.dtype = v.dtype;
  draft.high = v.attrs[0];
  draft.site = v.number;
  return append(std::move(draft));
}

int Emitter::emit_scalar(const Value& v, Place place) {
  int operand[3] = {-1, -1, -1};
  for (std::size_t k = 0; k < 3; ++k) {
    if (!v.in[k].is_none()) operand[k] = emit(v.in[k], place);
  }
  return scalar(v.op, v.dtype, operand[0], operand[1], operand[2]);
}

int Emitter::emit_gather(const Value& v, Place place) {
  const int rows = at(v.in[1]).shape.rank();
  const IndexMap& index = places_.indices[place.index];
  const ValueId base = reshape_base(values_, v.in[0]);
  if (is_empty(base)) return constant(0, v.dtype);
  const Shape& source = at(v.in[0]).shape;
  IndexMap within{Linear(axes())};
  for (const Linear& e : std::span(index).subspan(rows)) within.add(e);
  InstrDraft load{.instr = {.kind = InstrKind::Load}};
  load.instr.a =
      emit(v.in[1], {places_.indices.number_of({index.begin(), index.begin() + rows}), place.mask});
  load.instr.dtype = v.dtype;
  load.instr.slot = slot_of(base, false);
  load.index = flatten(within, source, axes());
  load.value_stride = source.numel() / greater(source[0], 1);
  load.mask = places_.masks[place.mask];
  return append(std::move(load));
}

int Emitter::emit_search(const Value& v, Place place) {
  InstrDraft search{.instr = {.kind = InstrKind::Search}};
  search.instr.a = emit(v.in[1], place);
  search.instr.dtype = v.dtype;
  search.instr.slot = slot_of(reshape_base(values_, v.in[0]), false);
  search.index = Linear(axes());
  search.index.offset = v.attrs[0];
  search.value_stride = v.attrs[1];
  search.high = v.attrs[2];
  return append(std::move(search));
}

int Emitter::emit_view(const Value& v, Place place) {
  const ValueId operand = v.in[0];
  const IndexMap& index = places_.indices[place.index];
  // A reshape of memory needs no following: the element number is the same.
  if (v.kind == ValueKind::Reshape) {
    const ValueId base = reshape_base(values_, operand);
    if (grouping_.in_memory(values_, base) && is_dense(at(base))) {
      const Linear address = flatten(index, v.shape, axes());
      if (!is_own(base)) return emit_load_at(base, address, place.mask);
      const int here = own_index(base);
      if (address == flatten(places_.indices[here], at(base).shape, axes()))
        return emit(base, {here, place.mask});
    }
  }
  Mask bounds;
  std::optional<AxisSplit> split;
  auto inner = through_view(v, at(operand).shape, index, draft_.extents, bounds, split);
  if (!inner) {
    if (split) throw AxisSplit(*split);
    throw NeedsStore{operand};
  }
  Place within{places_.indices.number_of(std::move(*inner)), place.mask};
  if (v.kind != ValueKind::Pad || bounds.empty()) return emit(operand, within);
  Mask all = places_.masks[place.mask];
  all.insert(all.end(), bounds.begin(), bounds.end());
  within.mask = places_.masks.number_of(std::move(all));
  if (place.mask == 0 && grouping_.in_memory(values_, operand) && !is_own(operand)) {
    return emit_load(operand, within, v.constant);
  }
  // Computed values: evaluate with masked loads, then choose.
  const int value = emit(operand, within);
  const int condition = emit_inside(places_.masks.number_of(std::move(bounds)));
  const DType dtype = v.dtype == DType::f16 || v.dtype == DType::bf16 ? DType::f32 : v.dtype;
  return converted(scalar(ScalarOp::where, dtype, condition, converted(value, dtype),
                          constant(v.constant, dtype)),
                   v.dtype);
}

// Whether the point lies within all bounds of the mask.
int Emitter::emit_inside(int mask) {
  const auto number = static_cast<std::size_t>(mask);
  if (inside_.size() <= number) inside_.resize(number + 1, -1);
  if (inside_[number] >= 0) return inside_[number];
  int condition = -1;
  for (const LinearBound& b : places_.masks[mask]) {
    const int e = emit_index(b.expression, DType::i64);
    const int low = scalar(ScalarOp::le, DType::boolean, constant(0, DType::i64), e);
    Linear limit(axes());
    limit.offset = b.high;
    const int high = scalar(ScalarOp::lt, DType::boolean, e, emit_index(limit, DType::i64));
    const int both = scalar(ScalarOp::logical_and, DType::boolean, low, high);
    condition =
        condition < 0 ? both : scalar(ScalarOp::logical_and, DType::boolean, condition, both);
  }
  return inside_[number] = condition;
}

}  // namespace volta::plan
