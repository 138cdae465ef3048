// Records operations on tensors: brings the operands to one device, records the node, and makes a
// tape record where gradients flow.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "graph/record/node.h"
#include "graph/record/op.h"
#include "graph/record/recording_state.h"
#include "volta/tensor.h"

namespace volta::graph {

// An input of an operation. The caller keeps the tensor alive.
class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(const Tensor& tensor) : variable_(TensorAccess::variable(tensor)) {}  // NOLINT: implicit
  const Variable* operator->() const { return variable_; }
  Node* node() const { return variable_->node.get(); }
  // A new handle to the same variable.
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
// Throws DTypeError if the device does not support the dtype.
void require_supported(const char* op, DType dtype, Device device);

// Brings the operands to one device. If they are on different devices, the ExecutionContext
// decides: either they are moved (with one warning per source location) or DeviceError is thrown.
void agree_on_device(const char* op, std::span<Tensor> operands, SourceLocation place);
inline bool on_one_device(std::initializer_list<Borrowed> operands) {
  const DeviceEntry* first = operands.begin()->node()->entry;
  bool same = true;
  for (const Borrowed& operand : operands) same &= operand.node()->entry == first;
  return same;
}

// Records one operation with one result.
Tensor apply(OpId op, std::span<const Borrowed> inputs, std::span<const std::int64_t> attrs,
             const Shape& shape, DType dtype, SourceLocation place);
Tensor apply(OpId op, std::span<const Tensor> inputs, std::span<const std::int64_t> attrs,
             const Shape& shape, DType dtype, SourceLocation place);
Tensor apply(OpId op, std::initializer_list<Borrowed> inputs,
             std::initializer_list<std::int64_t> attrs, const Shape& shape, DType dtype,
             SourceLocation place);
// Records one operation with several results. Gradients flow through the first result; the others
// are auxiliary.
std::vector<Tensor> apply_multi(OpId op, std::span<const Tensor> inputs,
                                std::span<const std::int64_t> attrs, std::span<const Shape> shapes,
                                std::span<const DType> dtypes, SourceLocation place);

// A number as a tensor without axes. It is never pending.
Tensor number(Scalar value, DType dtype, Device device);
Tensor filled(const Shape& shape, Scalar value, DType dtype, Device device);
Tensor filled(const Shape& shape, Scalar value, DType dtype, DeviceEntry& entry);
// A number as an operand. Throws ArgumentError "<op>: 300 does not fit u8" if the dtype is an
// integer type that cannot represent it.
Tensor operand_number(const char* op, Scalar value, DType dtype, DeviceEntry& entry);

// An integer that is always an argument of the plan, never a literal of its key, so that one plan
// serves every value.
Tensor argument(std::int64_t value, Device device);
// Gives every handle of the variable a new value, with the value's history unless gradients are
// off.
void replace_value(const Tensor& target, const Tensor& value, const char* op);
// Throws DTypeError if the result is of a higher kind than the target: floats are not written into
// integers, nor numbers into booleans.
void require_fits_in_place(const char* op, DType result, DType target);

// Whether the shape is a scalar's. Axes 0 and -1 are then accepted, as in PyTorch; any other axis
// throws ShapeError.
bool is_axis_of_scalar(const char* op, std::int64_t axis, const Shape& shape);

// The device that has the tensor.
DeviceEntry& entry_of(const Tensor& tensor);

// ---- Building blocks of gradient rules and composed operations. The caller passes its own source
// location.
Tensor reshape_to(const Tensor& x, const Shape& shape, SourceLocation place);
Tensor expand_to(const Tensor& x, const Shape& shape, SourceLocation place);
Tensor sum_axes(const Tensor& x, std::span<const std::int64_t> axes, bool keepdim,
                SourceLocation place);
// Whether products recorded now may be computed in tf32.
bool tf32_now();
Tensor product(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, bool tf32,
               SourceLocation place);
// The common dtype of the operands (docs/dtypes.md): that of the tensors with axes, unless a tensor
// without axes, or then a number, is of a higher kind.
DType result_dtype(std::span<const Operand> operands);
// The dtype of a number on its own: f32, i64 or bool.
DType natural_dtype(Scalar number);
Tensor binary(OpId op, const Operand& a, const Operand& b);
// Records an operation that is a formula; its arguments broadcast and promote. Error messages begin
// with `name`, or with the name in the operation's row if `name` is null.
Tensor apply_formula(OpId op, std::span<const Operand> arguments, const char* name = nullptr);
// A scalar operation of one operand, whose dtype must support it.
inline Tensor unary(OpId op, const Tensor& x, SourceLocation place) {
  return apply(op, {&x, 1}, {}, x.shape(), op == OpId::logical_not ? DType::boolean : x.dtype(),
               place);
}

// A number greater than `after` and than all earlier numbers of this thread.
std::uint64_t next_tape_sequence(std::uint64_t after);

// An earlier value of a leaf, which may have changed since. Its gradient goes to the leaf.
Tensor leaf_as_it_was(const Tensor& leaf, const Held& value, SourceLocation place);

// The tape record of an operation, empty if no gradient flows through it. It has an edge for each
// input and the values that the operation's row saves.
TapeRef make_tape(OpId id, std::span<const Borrowed> inputs, std::span<const std::int64_t> attrs,
                  std::span<Node* const> outputs, SourceLocation place);

}  // namespace volta::graph
