// Matrix products as calls of oneDNN, cuBLASLt and our own tiled kernels.
#include "plan/calls/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/common/matmul_program.h"
#include "backend/registry.h"
#include "plan/calls/operand_view.h"
#include "plan/lower/index_map.h"

namespace volta::plan {
namespace {

const Value& at(const std::vector<Value>& values, int id) {
  return values[static_cast<std::size_t>(id)];
}

// The sizes and types of a product, without the layout of its operands.
MatmulStep sizes_of(const std::vector<Value>& values, const Value& value) {
  const Value& left = at(values, value.in[0]);
  const MatmulAttributes attributes = MatmulAttributes::of(value);
  const int rank = value.shape.rank();
  MatmulStep m;
  m.dtype = left.dtype;
  m.f32_result = value.dtype != left.dtype;
  m.transpose_a = attributes.transpose_a;
  m.transpose_b = attributes.transpose_b;
  m.tf32 = attributes.tf32;
  m.activation = attributes.activation;
  m.has_bias = !value.in[2].is_none();
  m.m = value.shape[rank - 2].hint();
  m.n = value.shape[rank - 1].hint();
  m.k = left.shape[rank - (attributes.transpose_a ? 2 : 1)].hint();
  m.batch = rank == 3 ? value.shape[0].hint() : 1;
  return m;
}

class MatmulKind final : public Call {
 public:
  const char* name() const override { return "matmul"; }
  std::size_t alternative() const override { return Step(MatmulStep{}).index(); }
  OperandLayout layout(std::size_t operand) const override {
    return operand < 2 ? OperandLayout::Matrix : OperandLayout::Dense;
  }

  CallDraft draft(const StoredValues& plan, const Value& value, std::size_t results,
                  bool) const override {
    const MatrixView a = matrix_view(plan, value.in[0]), b = matrix_view(plan, value.in[1]);
    MatmulStep m = sizes_of(plan.values, value);
    m.transpose_a = m.transpose_a != a.transposed;
    m.transpose_b = m.transpose_b != b.transposed;
    m.label = value.label;
    m.keeps_input = results > 1;
    CallDraft draft;
    draft.reads = {a.base, b.base};
    for (const std::size_t more : {2, 3}) {
      if (!value.in[more].is_none())
        draft.reads.push_back(reshape_base(plan.values, value.in[more]));
    }
    const Value& left = at(plan.values, value.in[0]);
    const int rank = value.shape.rank();
    const Extent rows = value.shape[rank - 2], columns = value.shape[rank - 1];
    const Extent inner = left.shape[rank - (MatmulAttributes::of(value).transpose_a ? 2 : 1)];
    draft.sizes = {
        rows,           columns,   inner,          rank == 3 ? value.shape[0] : Extent(1),
        a.leading,      b.leading, a.batch_stride, b.batch_stride,
        rows * columns, a.offset,  b.offset};
    draft.step = std::move(m);
    resize(draft.step, hints(draft.sizes));
    return draft;
  }

  bool resize(Step& step, std::span<const std::int64_t> sizes) const override {
    auto& m = std::get<MatmulStep>(step);
    m.m = sizes[0];
    m.n = m.ldc = sizes[1];
    m.k = sizes[2];
    m.batch = sizes[3];
    m.lda = sizes[4];
    m.ldb = sizes[5];
    m.stride_a = sizes[6];
    m.stride_b = sizes[7];
    m.stride_c = sizes[8];
    m.offset_a = sizes[9];
    m.offset_b = sizes[10];
    return true;
  }

  // Every backend multiplies; not every one takes an epilogue.
  bool asks_support(const Step& step) const override {
    const auto& m = std::get<MatmulStep>(step);
    return m.has_bias || m.keeps_input || m.activation != Activation::None;
  }

  bool can_have_epilogue(const Value& value) const override { return value.shape.rank() == 2; }
  std::optional<std::vector<Extent>> with_epilogue(const std::vector<Value>& values,
                                                   const Value& value, const Epilogue& epilogue,
                                                   const DeviceEntry& device) const override {
    MatmulStep step = sizes_of(values, value);
    step.f32_result = false;
    step.has_bias = epilogue.has_bias;
    step.activation = epilogue.activation;
    step.keeps_input = epilogue.keeps_input;
    if (!device.backend.takes(device.index, step).taken) return std::nullopt;
    MatmulAttributes attributes = MatmulAttributes::of(value);
    attributes.activation = epilogue.activation;
    return attributes.pack();
  }

  CallText text(const Step& step) const override {
    const auto& m = std::get<MatmulStep>(step);
    return {.what = fmt::format("{} {} x {}{}", m.label, to_string(volta::Shape{m.batch, m.m, m.k}),
                                to_string(volta::Shape{m.k, m.n}),
                                epilogue_text(m.has_bias, m.activation)),
            .schedule = m.cut.empty() ? "library" : fmt::format("library, tuned: {}", m.cut)};
  }

  StepCost cost(const Step& step, std::span<const CallBuffer> reads,
                std::span<const CallBuffer>) const override {
    const auto& m = std::get<MatmulStep>(step);
    StepCost cost;
    cost.operations = static_cast<std::uint64_t>(2 * m.batch * m.m * m.n * m.k);
    const std::uint64_t size = size_of(m.dtype);
    // A matrix may be a part of its buffer, and one matrix may serve a whole batch.
    const auto read = [&](std::size_t side, std::int64_t elements) {
      return size * static_cast<std::uint64_t>(std::min(elements, reads[side].elements));
    };
    cost.bytes_read = read(0, m.batch * m.m * m.k) + read(1, m.batch * m.k * m.n);
    const std::uint64_t result =
        size_of(m.result_dtype()) * static_cast<std::uint64_t>(m.batch * m.m * m.n);
    cost.bytes_written = m.keeps_input ? 2 * result : result;
    if (m.reads_other()) cost.bytes_read += result;
    return cost;
  }

  Arithmetic arithmetic(const Step& step) const override {
    const auto& m = std::get<MatmulStep>(step);
    return arithmetic_of(m.dtype, m.tf32);
  }

  // The CPU's library adds a bias but has no activations, so these are lowered to a kernel.
  Reference reference(PlanSteps plan) const override {
    const auto& m = std::get<MatmulStep>(plan.steps.front());
    if (m.activation != Activation::None || m.keeps_input) plan.steps.front() = lower_matmul(m);
    return Call::reference(std::move(plan));
  }

  std::vector<std::string> forms(const Backend& backend, int device,
                                 const Step& step) const override {
    return backend.call_forms(device, step);
  }
  void set_form(Step& step, const std::string& form) const override {
    std::get<MatmulStep>(step).cut = form;
  }
  TuningKey tuning_key(const Step& step) const override {
    const auto& m = std::get<MatmulStep>(step);
    return {fmt::format("cut {} {} {}{}", name_of(m.dtype), name_of(m.result_dtype()),
                        m.transpose_a ? "T" : "N", m.transpose_b ? "T" : "N"),
            {m.m, m.n, m.k, m.batch}};
  }

  std::vector<UsedBuffer> buffers(Step& step) const override {
    auto& m = std::get<MatmulStep>(step);
    const auto bytes = [&](std::int64_t rows, std::int64_t leading, std::int64_t columns,
                           std::int64_t stride, std::int64_t offset, DType dtype) {
      const std::int64_t last = offset + (m.batch - 1) * stride + (rows - 1) * leading + columns;
      return static_cast<std::uint64_t>(last) * size_of(dtype);
    };
    const std::int64_t rows_a = m.transpose_a ? m.k : m.m, rows_b = m.transpose_b ? m.n : m.k;
    const DType result = m.result_dtype();
    std::vector<UsedBuffer> used{
        {&m.a, m.dtype, bytes(rows_a, m.lda, m.m + m.k - rows_a, m.stride_a, m.offset_a, m.dtype)},
        {&m.b, m.dtype, bytes(rows_b, m.ldb, m.n + m.k - rows_b, m.stride_b, m.offset_b, m.dtype)},
        {&m.c, result, bytes(m.m, m.ldc, m.n, m.stride_c, 0, result)}};
    if (m.has_bias) used.push_back({&m.bias, result, bytes(1, 0, m.n, 0, 0, result)});
    if (m.uses_other()) used.push_back({&m.other, result, bytes(m.m, m.n, m.n, 0, 0, result)});
    return used;
  }
};

// The half-precision value that an f32 value was converted from; none if there is none.
Expr half_source(const Lowering& l, Expr a) {
  const Value& v = l.at(a);
  if (v.kind != ValueKind::Cast || v.dtype != DType::f32) return {};
  const Expr source{a.builder, v.in[0]};
  return is_half(source.dtype()) ? source : Expr{};
}

// Computes the product as a reduction of [batch, m, n, k] over k.
Expr small_matmul(Lowering& l, Expr a, Expr b, bool transpose_a, bool transpose_b) {
  const int rank = a.shape().rank();
  const std::int64_t flip2[] = {1, 0}, flip3[] = {0, 2, 1};
  const std::span<const std::int64_t> flip =
      rank == 2 ? std::span<const std::int64_t>(flip2) : std::span<const std::int64_t>(flip3);
  if (transpose_a) a = l.permute(a, flip);   // [.., m, k]
  if (!transpose_b) b = l.permute(b, flip);  // [.., n, k]
  const Shape sa = a.shape(), sb = b.shape();
  const std::int64_t axis = rank;
  if (rank == 2) {
    const Expr rows = l.reshape(a, {sa[0], 1, sa[1]}), columns = l.reshape(b, {1, sb[0], sb[1]});
    return l.reduce(kernel::ReduceOp::Sum, rows * columns, {&axis, 1});
  }
  const Expr rows = l.reshape(a, {sa[0], sa[1], 1, sa[2]}),
             columns = l.reshape(b, {sb[0], 1, sb[1], sb[2]});
  return l.reduce(kernel::ReduceOp::Sum, rows * columns, {&axis, 1});
}

}  // namespace

const Call& matmul_call() {
  static const MatmulKind call;
  return call;
}

bool is_matmul(const Value& value) { return value.call == &matmul_call(); }

Expr matmul(Lowering& l, Expr a, Expr b, bool transpose_a, bool transpose_b, bool tf32) {
  if (is_half(a.dtype())) {
    const DType half = a.dtype();
    const Expr product =
        matmul(l, l.cast(a, DType::f32), l.cast(b, DType::f32), transpose_a, transpose_b, tf32);
    return product.dtype() == DType::f32 ? l.cast(product, half) : product;
  }
  const int rank = a.shape().rank();
  const Extent m = a.shape()[rank - (transpose_a ? 1 : 2)],
               k = a.shape()[rank - (transpose_a ? 2 : 1)];
  const Extent n = b.shape()[rank - (transpose_b ? 2 : 1)];
  const Extent batch = rank == 3 ? a.shape()[0] : Extent(1);
  const DeviceEntry& device = l.device();
  if (batch * m * n * k <= device.backend.small_product(device.index) || is_integral(a.dtype()))
    return small_matmul(l, a, b, transpose_a, transpose_b);
  const Shape shape = rank == 3 ? Shape{batch, m, n} : Shape{m, n};
  Value value{.kind = ValueKind::Call, .dtype = a.dtype(), .shape = shape};
  value.call = &matmul_call();
  value.in = {a.id, b.id};
  // Operands converted from half precision are multiplied directly, because the product accumulates
  // in f32 anyway.
  const Expr half_a = half_source(l, a), half_b = half_source(l, b);
  if (!half_a.is_none() && !half_b.is_none() && half_a.dtype() == half_b.dtype() &&
      l.multiplies_halves(half_a.dtype())) {
    value.in = {half_a.id, half_b.id};
  }
  value.attrs = MatmulAttributes{transpose_a, transpose_b, tf32, Activation::None}.pack();
  return l.insert(std::move(value));
}

}  // namespace volta::plan
