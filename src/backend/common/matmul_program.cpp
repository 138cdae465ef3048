// Builds the reduce program of a matrix product. Sizes and strides are parameters, but unit strides
// are literals, so that the compiler sees along which axis an operand is contiguous.
#include "backend/common/matmul_program.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <utility>

#include "kernel/observer.h"

namespace volta {
namespace {

using kernel::Affine;
using kernel::Instr;
using kernel::InstrKind;
using kernel::Int;
using kernel::Program;
using kernel::ScalarOp;
using plan::MatmulStep;

// Rows of at least kLongRow elements are each summed by several threads if there are few results.
constexpr std::int64_t kLongRow = 256;
constexpr std::int64_t kFewResults = 4096;
constexpr int kLongRowLanes = 128;

DType accumulator(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

std::int64_t last_element(std::int64_t batch, std::int64_t stride, std::int64_t rows,
                          std::int64_t ld, std::int64_t columns, std::int64_t offset) {
  return std::max<std::int64_t>(0, batch - 1) * stride + std::max<std::int64_t>(0, rows - 1) * ld +
         columns + offset;
}

class Builder {
 public:
  explicit Builder(const MatmulStep& step) : step_(step), program_(std::make_shared<Program>()) {}

  plan::KernelStep build() {
    const bool batched = step_.batch > 1;
    if (batched) batch_axis_ = add_axis(step_.batch, kernel::Role::Par);
    const int row = add_axis(step_.m, kernel::Role::Par);
    const int column = add_axis(step_.n, kernel::Role::Par);
    const int depth = add_axis(step_.k, kernel::Role::Red);
    program_->slots = {{step_.dtype, true, false},
                       {step_.dtype, true, false},
                       {step_.result_dtype(), false, true}};
    std::vector<plan::BufferRef> buffers{step_.a, step_.b, step_.c};

    const int a =
        load(0, index(step_.stride_a, row, depth, step_.lda, step_.transpose_a, step_.offset_a));
    const int b =
        load(1, index(step_.stride_b, depth, column, step_.ldb, step_.transpose_b, step_.offset_b));
    const DType dtype = accumulator(step_.dtype);
    const int product =
        add({.kind = InstrKind::Op, .dtype = dtype, .op = ScalarOp::mul, .a = a, .b = b});
    const int sum = add(
        {.kind = InstrKind::Reduce, .dtype = dtype, .reduce = kernel::ReduceOp::Sum, .a = product});
    int result = sum;
    if (step_.has_bias) {
      Instr bias{.kind = InstrKind::Load,
                 .dtype = step_.result_dtype(),
                 .slot = add_slot(step_.bias, false, buffers)};
      bias.index.terms.push_back({column, Int::literal(1)});
      result =
          op(ScalarOp::add, result, convert(add(std::move(bias)), step_.result_dtype(), dtype));
    }
    if (step_.keeps_input) {
      store(add_slot(step_.other, true, buffers), result, row, column);
      // The activation sees the rounded value, as a reader of the stored input would.
      result = convert(convert(result, dtype, step_.result_dtype()), step_.result_dtype(), dtype);
    }
    switch (step_.activation) {
      case plan::Activation::None:
        break;
      case plan::Activation::Relu:
        result = op(ScalarOp::maximum, result, number(0));
        break;
      case plan::Activation::Gelu:
        result = op(ScalarOp::mul, result, gelu_gate(result));
        break;
      case plan::Activation::GeluGradient: {
        Instr at{.kind = InstrKind::Load,
                 .dtype = step_.result_dtype(),
                 .slot = add_slot(step_.other, false, buffers)};
        at.index = index(step_.stride_c, row, column, step_.ldc, false, 0);
        const int x = convert(add(std::move(at)), step_.result_dtype(), dtype);
        result = op(ScalarOp::mul, result, gelu_slope(x));
        break;
      }
    }
    store(2, result, row, column);

    program_->schedule.kind = kernel::ScheduleKind::Row;
    const bool few = step_.batch * step_.m * step_.n < kFewResults;
    program_->schedule.lanes = few && step_.k >= kLongRow ? kLongRowLanes : 1;
    program_->schedule.index64 = needs_index64(step_);
    program_->int_params = static_cast<int>(ints_.size());
    kernel::validate(*program_);
    kernel::report_program(*program_);
    return {.program = program_,
            .segments = {{.ints = std::move(ints_), .buffers = std::move(buffers), .first_arg = 0}},
            .label = step_.label};
  }

 private:
  Int param(std::int64_t value) {
    ints_.push_back(value);
    return Int::param(static_cast<std::int64_t>(ints_.size()) - 1);
  }

  int add_axis(std::int64_t extent, kernel::Role role) {
    program_->axes.push_back({param(extent), role});
    return static_cast<int>(program_->axes.size()) - 1;
  }

  int add(Instr instr) {
    program_->instrs.push_back(std::move(instr));
    return static_cast<int>(program_->instrs.size()) - 1;
  }

  int add_slot(const plan::BufferRef& buffer, bool written, std::vector<plan::BufferRef>& buffers) {
    program_->slots.push_back({step_.result_dtype(), !written, written});
    buffers.push_back(buffer);
    return static_cast<int>(program_->slots.size()) - 1;
  }

  void store(int slot, int value, int row, int column) {
    Instr instr{.kind = InstrKind::Store,
                .dtype = step_.result_dtype(),
                .a = convert(value, accumulator(step_.dtype), step_.result_dtype()),
                .slot = slot};
    instr.index = index(step_.stride_c, row, column, step_.ldc, false, 0);
    add(std::move(instr));
  }

  // ---- Instructions in the accumulator's dtype.

  int op(ScalarOp op, int a, int b = -1) {
    return add(
        {.kind = InstrKind::Op, .dtype = accumulator(step_.dtype), .op = op, .a = a, .b = b});
  }
  int number(double value) {
    Instr constant{.kind = InstrKind::Const, .dtype = accumulator(step_.dtype)};
    constant.constant = value;
    return add(std::move(constant));
  }
  // gelu(x) = x * gate(x) with gate(x) = sigmoid(sqrt(8 / pi) (x + 0.044715 x^3)), the tanh
  // approximation.
  int gelu_gate(int x) {
    const int cubed = op(ScalarOp::mul, op(ScalarOp::mul, x, x), x);
    const int inner = op(ScalarOp::add, x, op(ScalarOp::mul, number(0.044715), cubed));
    const int exponential =
        op(ScalarOp::exp, op(ScalarOp::mul, number(-std::sqrt(8 / std::numbers::pi)), inner));
    return op(ScalarOp::div, number(1), op(ScalarOp::add, number(1), exponential));
  }
  // gelu'(x) = s + x s (1 - s) sqrt(8 / pi) (1 + 0.134145 x^2) with s = gate(x). |x| is clamped in
  // the square so that it cannot overflow; s is 0 or 1 there.
  int gelu_slope(int x) {
    const int gate = gelu_gate(x);
    const int near = op(ScalarOp::minimum, op(ScalarOp::abs, x), number(1000));
    const int steep = op(ScalarOp::add, number(1),
                         op(ScalarOp::mul, number(0.134145), op(ScalarOp::mul, near, near)));
    const int bend =
        op(ScalarOp::mul, op(ScalarOp::mul, x, gate), op(ScalarOp::sub, number(1), gate));
    return op(
        ScalarOp::add, gate,
        op(ScalarOp::mul, bend, op(ScalarOp::mul, number(std::sqrt(8 / std::numbers::pi)), steep)));
  }

  int convert(int value, DType from, DType to) {
    return from == to ? value : add({.kind = InstrKind::Cast, .dtype = to, .a = value});
  }

  int load(int slot, Affine index) {
    Instr instr{.kind = InstrKind::Load, .dtype = step_.dtype, .slot = slot};
    instr.index = std::move(index);
    return convert(add(std::move(instr)), step_.dtype, accumulator(step_.dtype));
  }

  // Element (row, column) of a matrix in the batch; a transposed matrix is stored as [column, row].
  Affine index(std::int64_t stride, int row, int column, std::int64_t ld, bool transposed,
               std::int64_t offset) {
    Affine result;
    if (batch_axis_ >= 0) result.terms.push_back({batch_axis_, param(stride)});
    const Int leading = param(ld), unit = Int::literal(1);
    result.terms.push_back({row, transposed ? unit : leading});
    result.terms.push_back({column, transposed ? leading : unit});
    std::ranges::sort(result.terms, {}, &kernel::Term::axis);
    result.offset = param(offset);
    return result;
  }

  const MatmulStep& step_;
  std::shared_ptr<Program> program_;
  std::vector<std::int64_t> ints_;
  int batch_axis_ = -1;
};

}  // namespace

bool needs_index64(const MatmulStep& s) {
  const std::int64_t largest =
      std::max({last_element(s.batch, s.stride_a, s.transpose_a ? s.k : s.m, s.lda,
                             s.transpose_a ? s.m : s.k, s.offset_a),
                last_element(s.batch, s.stride_b, s.transpose_b ? s.n : s.k, s.ldb,
                             s.transpose_b ? s.k : s.n, s.offset_b),
                last_element(s.batch, s.stride_c, s.m, s.ldc, s.n, 0), s.batch * s.m * s.n});
  return largest > std::numeric_limits<std::int32_t>::max();
}

plan::KernelStep lower_matmul(const MatmulStep& step) { return Builder(step).build(); }

}  // namespace volta
