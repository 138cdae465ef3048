// Builds the reduce program of a matrix product. Sizes and strides are parameters; unit strides are
// literals, so that a compiler sees which operand is contiguous along which axis.
#include "backend/matmul_program.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "kernel/observer.h"

namespace volta {
namespace {

using kernel::Affine;
using kernel::Instr;
using kernel::InstrKind;
using kernel::Int;
using kernel::Program;
using plan::MatmulStep;

// Rows of at least this length with few results are summed by several threads each.
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
        add({.kind = InstrKind::Op, .dtype = dtype, .op = kernel::ScalarOp::mul, .a = a, .b = b});
    const int sum = add(
        {.kind = InstrKind::Reduce, .dtype = dtype, .reduce = kernel::ReduceOp::Sum, .a = product});
    int result = sum;
    if (step_.has_bias) {
      program_->slots.push_back({step_.result_dtype(), true, false});
      buffers.push_back(step_.bias);
      Instr bias{.kind = InstrKind::Load, .dtype = step_.result_dtype(), .slot = 3};
      bias.index.terms.push_back({column, Int::literal(1)});
      const int loaded = convert(add(std::move(bias)), step_.result_dtype(), dtype);
      result = add({.kind = InstrKind::Op,
                    .dtype = dtype,
                    .op = kernel::ScalarOp::add,
                    .a = result,
                    .b = loaded});
    }
    if (step_.relu) {
      const int zero = add({.kind = InstrKind::Const, .dtype = dtype});
      result = add({.kind = InstrKind::Op,
                    .dtype = dtype,
                    .op = kernel::ScalarOp::maximum,
                    .a = result,
                    .b = zero});
    }
    Instr store{.kind = InstrKind::Store,
                .dtype = step_.result_dtype(),
                .a = convert(result, dtype, step_.result_dtype()),
                .slot = 2};
    store.index = index(step_.stride_c, row, column, step_.ldc, false, 0);
    add(std::move(store));

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

  int convert(int value, DType from, DType to) {
    return from == to ? value : add({.kind = InstrKind::Cast, .dtype = to, .a = value});
  }

  int load(int slot, Affine index) {
    Instr instr{.kind = InstrKind::Load, .dtype = step_.dtype, .slot = slot};
    instr.index = std::move(index);
    return convert(add(std::move(instr)), step_.dtype, accumulator(step_.dtype));
  }

  // Element (row, column) of a matrix of the batch; transposed means stored as [column, row].
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
