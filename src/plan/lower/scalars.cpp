// Builders of numbers and of elementwise operations.
#include <cmath>
#include <utility>

#include "plan/lower/builder.h"

namespace volta::plan {

using kernel::ScalarOp;

namespace {

bool is_const(const Value& v, double number) {
  return v.kind == ValueKind::Const && v.constant == number && !std::signbit(v.constant);
}

}  // namespace

Expr ValueBuilder::constant(double number, DType dtype) {
  Value value{.kind = ValueKind::Const, .dtype = dtype};
  value.constant = number;
  return insert(std::move(value));
}

Expr ValueBuilder::size(Extent number, DType dtype) {
  Value value{.kind = ValueKind::Size, .dtype = DType::i64};
  value.attrs = {number};
  return cast(insert(std::move(value)), dtype);
}

Expr ValueBuilder::iota(const Shape& shape, int axis) {
  Value value{.kind = ValueKind::Iota, .dtype = DType::i64, .shape = shape};
  value.attrs = {axis};
  return insert(std::move(value));
}

Expr ValueBuilder::philox(Expr seed, Expr offset, const Shape& shape, DType dtype,
                          Extent multiplier, Extent increment) {
  Value value{.kind = ValueKind::Philox, .dtype = dtype, .shape = shape};
  value.in = {seed.id, offset.id, -1};
  value.attrs = {multiplier, increment};
  return insert(std::move(value));
}

// Halves are for storage: arithmetic is in f32, and the result is rounded once. Bools and indices
// are unchanged.
Expr ValueBuilder::in_f32(Expr result, DType dtype) {
  return result.dtype() == DType::f32 ? cast(result, dtype) : result;
}

Expr ValueBuilder::unary(ScalarOp op, Expr a) {
  if (is_half(a.dtype())) return in_f32(unary(op, cast(a, DType::f32)), a.dtype());
  Value value{.kind = ValueKind::Scalar, .dtype = a.dtype(), .shape = a.shape(), .op = op};
  if (kernel::info(op).result == kernel::ScalarResult::Bool) value.dtype = DType::boolean;
  value.in[0] = a.id;
  return insert(std::move(value));
}

Expr ValueBuilder::binary(ScalarOp op, Expr a, Expr b) {
  const DType dtype = promote(a.dtype(), b.dtype());
  if (is_half(dtype)) return in_f32(binary(op, cast(a, DType::f32), cast(b, DType::f32)), dtype);
  a = cast(a, dtype);
  b = cast(b, dtype);
  const Shape shape = broadcast_shapes(kernel::info(op).name, a.shape(), b.shape());
  const Value &left = values_[behind_expand(values_, a.id)],
              &right = values_[behind_expand(values_, b.id)];
  if ((op == ScalarOp::mul && is_const(right, 1)) || (op == ScalarOp::div && is_const(right, 1)) ||
      (op == ScalarOp::sub && is_const(right, 0))) {
    return expand(a, shape);
  }
  if (op == ScalarOp::mul && is_const(left, 1)) return expand(b, shape);
  Value value{.kind = ValueKind::Scalar, .dtype = dtype, .shape = shape, .op = op};
  if (kernel::info(op).result == kernel::ScalarResult::Bool) value.dtype = DType::boolean;
  value.in = {expand(a, shape).id, expand(b, shape).id, -1};
  return insert(std::move(value));
}

Expr ValueBuilder::where(Expr condition, Expr a, Expr b) {
  const DType dtype = promote(a.dtype(), b.dtype());
  if (is_half(dtype))
    return in_f32(where(condition, cast(a, DType::f32), cast(b, DType::f32)), dtype);
  a = cast(a, dtype);
  b = cast(b, dtype);
  const Shape shape =
      broadcast_shapes("where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape()));
  Value value{.kind = ValueKind::Scalar, .dtype = dtype, .shape = shape, .op = ScalarOp::where};
  value.in = {expand(condition, shape).id, expand(a, shape).id, expand(b, shape).id};
  return insert(std::move(value));
}

Expr ValueBuilder::cast(Expr a, DType dtype) {
  if (a.dtype() == dtype) return a;
  if (at(a).kind == ValueKind::Const && is_floating(dtype)) return constant(at(a).constant, dtype);
  if (at(a).kind == ValueKind::Expand) {
    const Shape shape = a.shape();
    return expand(cast({this, at(a).in[0]}, dtype), shape);
  }
  Value value{.kind = ValueKind::Cast, .dtype = dtype, .shape = a.shape()};
  value.in[0] = a.id;
  return insert(std::move(value));
}

Expr ValueBuilder::bounded(Expr a, Extent high, int site) {
  Value value{.kind = ValueKind::Bounded, .dtype = a.dtype(), .shape = a.shape()};
  value.in[0] = a.id;
  value.attrs = {high};
  value.number = site;
  return insert(std::move(value));
}

Expr ValueBuilder::gather(Expr source, Expr index) {
  const Shape rows = index.shape(), from = source.shape();
  std::vector<Extent> sizes(rows.begin(), rows.end());
  sizes.insert(sizes.end(), from.begin() + 1, from.end());
  Value value{.kind = ValueKind::Gather, .dtype = source.dtype(), .shape = Shape(sizes)};
  value.in = {source.id, index.id, -1};
  return insert(std::move(value));
}

Expr ValueBuilder::search(Expr keys, Expr wanted, Extent offset, Extent stride, Extent count) {
  Value value{.kind = ValueKind::Search, .dtype = DType::i32, .shape = wanted.shape()};
  value.in = {keys.id, wanted.id, -1};
  value.attrs = {offset, stride, count};
  return insert(std::move(value));
}

}  // namespace volta::plan
