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

int Emitter::emit_value(ValueId id, const IndexMap& index, const Mask& mask) {
  const Key key = memo_key(id, index, mask);
  if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
  const int result = compute(at(id), index, mask);
  return memo_[key] = result;
}

int Emitter::compute(const Value& v, const IndexMap& index, const Mask& mask) {
  switch (v.kind) {
    case ValueKind::Const:
      return constant(v.constant, v.dtype);
    case ValueKind::Size:
      return emit_size(v);
    case ValueKind::Arg:
      return emit_arg(v);
    case ValueKind::Iota:
      return emit_index(index[static_cast<std::size_t>(v.attrs[0].fixed())], v.dtype);
    case ValueKind::Philox:
      return emit_philox(v, index);
    case ValueKind::Cast:
      return emit_cast(v, index, mask);
    case ValueKind::Bounded:
      return emit_bounded(v, index, mask);
    case ValueKind::Placed:
      return emit(v.in[0], index, mask);
    case ValueKind::Scalar:
      return emit_scalar(v, index, mask);
    case ValueKind::Gather:
      return emit_gather(v, index, mask);
    case ValueKind::Search:
      return emit_search(v, index, mask);
    case ValueKind::Reshape:
    case ValueKind::Permute:
    case ValueKind::Expand:
    case ValueKind::Shrink:
    case ValueKind::Affine:
    case ValueKind::Pad:
      return emit_view(v, index, mask);
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

int Emitter::emit_philox(const Value& v, const IndexMap& index) {
  InstrDraft draft{.instr = {.kind = InstrKind::Philox}};
  draft.instr.dtype = v.dtype;
  draft.instr.a = emit(v.in[0], {}, {});
  draft.instr.b = emit(v.in[1], {}, {});
  const Linear element = flatten(index, v.shape, axes());
  draft.index = Linear(axes());
  draft.index.add(element, v.attrs[0]);
  draft.index.offset += v.attrs[1];
  return append(std::move(draft));
}

int Emitter::emit_cast(const Value& v, const IndexMap& index, const Mask& mask) {
  InstrDraft draft{.instr = {.kind = InstrKind::Cast}};
  draft.instr.a = emit(v.in[0], index, mask);
  draft.instr.dtype = v.dtype;
  return append(std::move(draft));
}

int Emitter::emit_bounded(const Value& v, const IndexMap& index, const Mask& mask) {
  InstrDraft draft{.instr = {.kind = InstrKind::Bounded}};
  draft.instr.a = emit(v.in[0], index, mask);
  // Indices in the padding cannot be out of range, and masked loads give 0 there already.
  if (!mask.empty() && instr(draft.instr.a).kind != InstrKind::Load) {
    const int zero = constant(0, v.dtype), inside = emit_inside(mask);
    draft.instr.a = scalar(ScalarOp::where, v.dtype, inside, draft.instr.a, zero);
  }
  draft.instr.dtype = v.dtype;
  draft.high = v.attrs[0];
  draft.site = v.number;
  return append(std::move(draft));
}

int Emitter::emit_scalar(const Value& v, const IndexMap& index, const Mask& mask) {
  int operand[3] = {-1, -1, -1};
  for (std::size_t k = 0; k < 3; ++k) {
    if (!v.in[k].is_none()) operand[k] = emit(v.in[k], index, mask);
  }
  return scalar(v.op, v.dtype, operand[0], operand[1], operand[2]);
}

int Emitter::emit_gather(const Value& v, const IndexMap& index, const Mask& mask) {
  const auto rows = static_cast<std::ptrdiff_t>(at(v.in[1]).shape.rank());
  const IndexMap row(index.begin(), index.begin() + rows);
  const ValueId base = reshape_base(values_, v.in[0]);
  if (is_empty(base)) return constant(0, v.dtype);
  const Shape& source = at(v.in[0]).shape;
  IndexMap within{Linear(axes())};
  within.insert(within.end(), index.begin() + rows, index.end());
  InstrDraft load{.instr = {.kind = InstrKind::Load}};
  load.instr.a = emit(v.in[1], row, mask);
  load.instr.dtype = v.dtype;
  load.instr.slot = slot_of(base, false);
  load.index = flatten(within, source, axes());
  load.value_stride = source.numel() / greater(source[0], 1);
  load.mask = mask;
  return append(std::move(load));
}

int Emitter::emit_search(const Value& v, const IndexMap& index, const Mask& mask) {
  InstrDraft search{.instr = {.kind = InstrKind::Search}};
  search.instr.a = emit(v.in[1], index, mask);
  search.instr.dtype = v.dtype;
  search.instr.slot = slot_of(reshape_base(values_, v.in[0]), false);
  search.index = Linear(axes());
  search.index.offset = v.attrs[0];
  search.value_stride = v.attrs[1];
  search.high = v.attrs[2];
  return append(std::move(search));
}

int Emitter::emit_view(const Value& v, const IndexMap& index, const Mask& mask) {
  const ValueId operand = v.in[0];
  // A reshape of a value in memory does not change the element number.
  if (v.kind == ValueKind::Reshape) {
    const ValueId base = reshape_base(values_, operand);
    const Linear address = flatten(index, v.shape, axes());
    if (grouping_.in_memory(values_, base) && is_dense(at(base))) {
      if (!is_own(base)) return emit_load_at(base, address, mask);
      const IndexMap here = own_index(base);
      if (address == flatten(here, at(base).shape, axes())) return emit(base, here, mask);
    }
  }
  Mask bounds;
  std::optional<AxisSplit> split;
  const auto inner = through_view(v, at(operand).shape, index, draft_.extents, bounds, split);
  if (!inner) {
    if (split) throw AxisSplit(*split);
    throw NeedsStore{operand};
  }
  if (v.kind != ValueKind::Pad || bounds.empty()) return emit(operand, *inner, mask);
  Mask inside = mask;
  inside.insert(inside.end(), bounds.begin(), bounds.end());
  if (mask.empty() && grouping_.in_memory(values_, operand) && !is_own(operand)) {
    return emit_load(operand, *inner, inside, v.constant);
  }
  // Computed values are evaluated with masked loads, then selected.
  const int value = emit(operand, *inner, inside);
  const int condition = emit_inside(bounds);
  const DType dtype = v.dtype == DType::f16 || v.dtype == DType::bf16 ? DType::f32 : v.dtype;
  return converted(scalar(ScalarOp::where, dtype, condition, converted(value, dtype),
                          constant(v.constant, dtype)),
                   v.dtype);
}

// Emits whether the point lies within all bounds.
int Emitter::emit_inside(const Mask& bounds) {
  const Key key = memo_key(ValueId::none, {}, bounds);
  if (const auto found = memo_.find(key); found != memo_.end()) return found->second;
  int condition = -1;
  for (const LinearBound& b : bounds) {
    const int e = emit_index(b.expression, DType::i64);
    const int low = scalar(ScalarOp::le, DType::boolean, constant(0, DType::i64), e);
    Linear limit(axes());
    limit.offset = b.high;
    const int high = scalar(ScalarOp::lt, DType::boolean, e, emit_index(limit, DType::i64));
    const int both = scalar(ScalarOp::logical_and, DType::boolean, low, high);
    condition =
        condition < 0 ? both : scalar(ScalarOp::logical_and, DType::boolean, condition, both);
  }
  return memo_[key] = condition;
}

}  // namespace volta::plan
