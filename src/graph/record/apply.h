// Recording operations on tensors: devices agreed, the node recorded, the tape kept where gradients
// flow.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "graph/node.h"
#include "graph/op.h"
#include "graph/recording_state.h"
#include "volta/tensor.h"

namespace volta::graph {

// An input of an operation, which its caller keeps.
class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(const Tensor& tensor) : variable_(TensorAccess::variable(tensor)) {}  // NOLINT: implicit
  const Variable* operator->() const { return variable_; }
  Node* node() const { return variable_->node.get(); }
  // A handle of its own.
  Tensor tensor() const;
  bool wants_gradient() const { return variable_->requires_grad || variable_->tape; }

 private:
  Variable* variable_ = nullptr;
};

// Throws ArgumentError "<op>: <what> is not a tensor" for a default-constructed Tensor.
[[noreturn]] void throw_undefined(const char* op, const char* what);
inline void require_defined(const char* op, const Tensor& tensor, const char* what = "the input") {
  if (!tensor.defined()) throw_undefined(op, what);
}
[[noreturn]] void throw_dtype(const char* op, DType dtype, const char* wanted);
void require_floating(const char* op, const Tensor& tensor);
// Throws DTypeError where the device has no such dtype.
void require_supported(const char* op, DType dtype, Device device);

// The device of an operation: where the operands are. If they differ, the ExecutionContext decides:
// the others are moved (with a warning once per place) or DeviceError is thrown.
void agree_on_device(const char* op, std::span<Tensor> operands, Place place);
inline bool on_one_device(std::initializer_list<Borrowed> operands) {
  const DeviceEntry* first = operands.begin()->node()->entry;
  bool same = true;
  for (const Borrowed& operand : operands) same &= operand.node()->entry == first;
  return same;
}

// Records one operation with one result.
Tensor apply(OpId op, std::span<const Borrowed> inputs, std::span<const std::int64_t> attrs,
             const Shape& shape, DType dtype, Place place);
Tensor apply(OpId op, std::span<const Tensor> inputs, std::span<const std::int64_t> attrs,
             const Shape& shape, DType dtype, Place place);
Tensor apply(OpId op, std::initializer_list<Borrowed> inputs,
             std::initializer_list<std::int64_t> attrs, const Shape& shape, DType dtype,
             Place place);
// Several results; gradients flow through the first, the others are auxiliary.
std::vector<Tensor> apply_multi(OpId op, std::span<const Tensor> inputs,
                                std::span<const std::int64_t> attrs, std::span<const Shape> shapes,
                                std::span<const DType> dtypes, Place place);

// A number as a tensor of no axes: never pending.
Tensor number(Scalar value, DType dtype, Device device);
Tensor filled(const Shape& shape, Scalar value, DType dtype, Device device);
Tensor filled(const Shape& shape, Scalar value, DType dtype, DeviceEntry& entry);
// A number that is an operand: throws ArgumentError "<op>: 300 does not fit u8" where the dtype is
// one of integers and has no such number.
Tensor operand_number(const char* op, Scalar value, DType dtype, DeviceEntry& entry);

// An integer that is an argument of its plan whatever it is: one plan serves all.
Tensor argument(std::int64_t value, Device device);
// A new value for every handle of the variable. History comes along unless gradients are off.
void replace_value(const Tensor& target, const Tensor& value, const char* op);
// Throws DTypeError where the result is of a higher kind than the target: floats do not go into
// integers, numbers not into truth values.
void require_fits_in_place(const char* op, DType result, DType target);

// Whether the shape is a scalar's, of which 0 and -1 stand for the axis it would have, as in
// PyTorch; any other axis throws ShapeError.
bool is_axis_of_scalar(const char* op, std::int64_t axis, const Shape& shape);

// Where the tensor lives.
DeviceEntry& entry_of(const Tensor& tensor);

// ---- What formulas are written in (no place: they take the place of the operation they serve).
Tensor reshape_to(const Tensor& x, const Shape& shape, Place place);
Tensor expand_to(const Tensor& x, const Shape& shape, Place place);
Tensor sum_axes(const Tensor& x, std::span<const std::int64_t> axes, bool keepdim, Place place);
// Whether products recorded now may be computed in tf32.
bool tf32_now();
Tensor product(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, bool tf32,
               Place place);
// The dtype of operands together (docs/dtypes.md): that of the tensors with axes, unless those
// without, and then numbers, are of a higher kind.
DType result_dtype(std::span<const Operand> operands);
// What a number is by itself: f32, i64 or bool.
DType natural_dtype(Scalar number);
Tensor binary(OpId op, const Operand& a, const Operand& b);
// An operation that is a formula: arguments broadcast and promote. Messages begin with `name`, that
// of its row if there is none.
Tensor apply_formula(OpId op, std::span<const Operand> arguments, const char* name = nullptr);
// A scalar operation of one operand, of a dtype that has it.
inline Tensor unary(OpId op, const Tensor& x, Place place) {
  return apply(op, {&x, 1}, {}, x.shape(), op == OpId::logical_not ? DType::boolean : x.dtype(),
               place);
}

// A number after `after` and all earlier ones of this thread.
std::uint64_t next_tape_sequence(std::uint64_t after);

// A value that a leaf had, which may have changed since; its gradient is the leaf's.
Tensor leaf_as_it_was(const Tensor& leaf, const Held& value, Place place);

// The record of an operation, if gradients flow through it: edges to where its inputs' gradients
// go, and what its row saves.
TapeRef make_tape(OpId id, std::span<const Borrowed> inputs, std::span<const std::int64_t> attrs,
                  std::span<Node* const> outputs, Place place);

}  // namespace volta::graph
