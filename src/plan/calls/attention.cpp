// Attention as a library call: fused kernels that never store the matrix of scores. The reference
// on the host works on one row of queries at a time, with loops over contiguous elements that
// compilers vectorize.
#include "plan/calls/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "backend/registry.h"
#include "core/convert.h"
#include "plan/calls/operand_view.h"

namespace volta::plan {
namespace {

// ---- The reference.

using Numbers = std::vector<float>;

// A row-major matrix of one head.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  Numbers elements;

  float* row(std::int64_t i) { return elements.data() + i * columns; }
  const float* row(std::int64_t i) const { return elements.data() + i * columns; }
  Matrix turned() const {
    Matrix result{columns, rows, Numbers(elements.size())};
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) result.row(j)[i] = row(i)[j];
    }
    return result;
  }
};

// to += factor * from
void add(float* to, float factor, const float* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}
// Multiplies a vector by a matrix, row by row of the matrix.
void multiply(const float* vector, const Matrix& matrix, std::int64_t columns, float* to) {
  std::fill_n(to, columns, 0.0f);
  for (std::int64_t i = 0; i < matrix.rows; ++i) add(to, vector[i], matrix.row(i), columns);
}

class Host {
 public:
  Host(const AttentionStep& step, std::span<const std::byte* const> reads,
       std::span<std::byte* const> writes)
      : s_(step), reads_(reads), writes_(writes) {}

  void run() const {
    const std::int64_t group = s_.heads / s_.kv_heads;
    for (std::int64_t b = 0; b < s_.batch; ++b) {
      for (std::int64_t kv = 0; kv < s_.kv_heads; ++kv) {
        const Keys keys(*this, b, kv);
        Matrix dk{s_.keys, s_.size, Numbers(keys.k.elements.size())}, dv = dk;
        for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
          if (s_.gradient) {
            differentiate(keys, b, head, dk, dv);
          } else {
            attend(keys, b, head);
          }
        }
        if (!s_.gradient) continue;
        write(1, dk, b, kv, s_.kv_heads);
        write(2, dv, b, kv, s_.kv_heads);
      }
    }
  }

 private:
  // The keys and values that the heads of a group share.
  struct Keys {
    Keys(const Host& host, std::int64_t batch, std::int64_t head)
        : k(host.read(1, batch, head, host.s_.keys)),
          v(host.read(2, batch, head, host.s_.keys)),
          k_turned(k.turned()),
          v_turned(v.turned()) {}
    Matrix k, v, k_turned, v_turned;
  };

  std::int64_t seen(std::int64_t query) const {
    return s_.causal ? std::min(s_.keys, query + 1) : s_.keys;
  }

  // Scales a row of scores and applies the mask.
  void finish(float* scores, std::int64_t count, std::int64_t batch, std::int64_t head,
              std::int64_t query) const {
    const auto scale = static_cast<float>(s_.scale);
    for (std::int64_t j = 0; j < count; ++j) scores[j] *= scale;
    if (!s_.masked) return;
    const AttentionStep::Operand& mask = s_.reads.back();
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t at = mask.offset + batch * mask.strides[0] + head * mask.strides[1] +
                              query * mask.strides[2] + j * mask.strides[3];
      float term = 0;
      convert(reads_.back() + at * static_cast<std::int64_t>(size_of(s_.mask)), s_.mask, &term,
              DType::f32, 1);
      if (s_.mask != DType::boolean) {
        scores[j] += term;
      } else if (term == 0) {
        scores[j] = -std::numeric_limits<float>::infinity();
      }
    }
  }

  Matrix read(std::size_t operand, std::int64_t batch, std::int64_t head,
              std::int64_t length) const {
    const AttentionStep::Operand& from = s_.reads[operand];
    const auto size = static_cast<std::int64_t>(size_of(s_.dtype));
    Matrix matrix{length, s_.size, Numbers(static_cast<std::size_t>(length * s_.size))};
    for (std::int64_t i = 0; i < length; ++i) {
      const std::byte* row =
          reads_[operand] + size * (from.offset + batch * from.strides[0] + head * from.strides[1] +
                                    i * from.strides[2]);
      const bool dense = from.strides[3] == 1;
      for (std::int64_t j = 0; j < (dense ? 1 : s_.size); ++j)
        convert(row + size * j * from.strides[3], s_.dtype, matrix.row(i) + j, DType::f32,
                static_cast<std::size_t>(dense ? s_.size : 1));
    }
    return matrix;
  }

  void write(std::size_t result, const Matrix& matrix, std::int64_t batch, std::int64_t head,
             std::int64_t heads) const {
    const bool heads_first = (s_.heads_first >> result & 1) != 0;
    for (std::int64_t i = 0; i < matrix.rows; ++i) {
      const std::int64_t row = heads_first ? (batch * heads + head) * matrix.rows + i
                                           : (batch * matrix.rows + i) * heads + head;
      convert(matrix.row(i), DType::f32,
              writes_[result] + static_cast<std::int64_t>(size_of(s_.dtype)) * row * s_.size,
              s_.dtype, static_cast<std::size_t>(s_.size));
    }
  }

  // The logarithm of a row's sum of exponentials.
  float read_log(std::int64_t batch, std::int64_t head, std::int64_t query) const {
    const AttentionStep::Operand& from = s_.reads[5];
    float log = 0;
    const std::int64_t at =
        from.offset + batch * from.strides[0] + head * from.strides[1] + query * from.strides[2];
    convert(reads_[5] + at * static_cast<std::int64_t>(sizeof log), DType::f32, &log, DType::f32,
            1);
    return log;
  }

  void attend(const Keys& keys, std::int64_t batch, std::int64_t head) const {
    const Matrix q = read(0, batch, head, s_.queries);
    Matrix y{s_.queries, s_.size, Numbers(q.elements.size())};
    Numbers logs(static_cast<std::size_t>(s_.queries)), row(static_cast<std::size_t>(s_.keys));
    for (std::int64_t i = 0; i < s_.queries; ++i) {
      const std::int64_t count = seen(i);
      multiply(q.row(i), keys.k_turned, count, row.data());
      finish(row.data(), count, batch, head, i);
      const float top = *std::max_element(row.begin(), row.begin() + count);
      if (top == -std::numeric_limits<float>::infinity()) {  // the query sees no key
        logs[static_cast<std::size_t>(i)] = -top;
        continue;
      }
      double sum = 0;
      for (std::int64_t j = 0; j < count; ++j) {
        float& weight = row[static_cast<std::size_t>(j)];
        weight = std::exp(weight - top);
        sum += weight;
      }
      for (std::int64_t j = 0; j < count; ++j)
        add(y.row(i), row[static_cast<std::size_t>(j)] / static_cast<float>(sum), keys.v.row(j),
            s_.size);
      logs[static_cast<std::size_t>(i)] = top + static_cast<float>(std::log(sum));
    }
    write(0, y, batch, head, s_.heads);
    const std::int64_t first = (batch * s_.heads + head) * s_.queries;
    convert(logs.data(), DType::f32, writes_[1] + first * static_cast<std::int64_t>(sizeof(float)),
            DType::f32, logs.size());
  }

  // Computes the gradients of one head. Those of keys and values are added up, because heads may
  // share them.
  void differentiate(const Keys& keys, std::int64_t batch, std::int64_t head, Matrix& dk,
                     Matrix& dv) const {
    const Matrix q = read(0, batch, head, s_.queries), y = read(3, batch, head, s_.queries),
                 g = read(4, batch, head, s_.queries);
    Matrix dq{s_.queries, s_.size, Numbers(q.elements.size())};
    Numbers scores(static_cast<std::size_t>(s_.keys)), gains(scores.size());
    const auto scale = static_cast<float>(s_.scale);
    for (std::int64_t i = 0; i < s_.queries; ++i) {
      const std::int64_t count = seen(i);
      multiply(q.row(i), keys.k_turned, count, scores.data());
      finish(scores.data(), count, batch, head, i);
      multiply(g.row(i), keys.v_turned, count, gains.data());
      // The softmax gradient subtracts the weighted sum of a row's gains from each of them.
      double together = 0;
      for (std::int64_t j = 0; j < s_.size; ++j)
        together += static_cast<double>(y.row(i)[j]) * g.row(i)[j];
      const float log = read_log(batch, head, i);
      for (std::int64_t j = 0; j < count; ++j) {
        const auto n = static_cast<std::size_t>(j);
        const float weight = std::exp(scores[n] - log);
        const float slope = weight * (gains[n] - static_cast<float>(together)) * scale;
        add(dv.row(j), weight, g.row(i), s_.size);
        add(dk.row(j), slope, q.row(i), s_.size);
        add(dq.row(i), slope, keys.k.row(j), s_.size);
      }
    }
    write(0, dq, batch, head, s_.heads);
  }

  const AttentionStep& s_;
  std::span<const std::byte* const> reads_;
  std::span<std::byte* const> writes_;
};

// ---- The call.

// The attributes of a value: the numbers of the step, and the workspace size of the library.
constexpr std::size_t kNumbers = std::tuple_size_v<AttentionStep::Numbers>;
// Among the numbers of AttentionStep::numbers: heads_first, and the sizes that may be open, batch
// to keys.
constexpr std::size_t kHeadsFirst = 3, kBatch = 6;
constexpr std::size_t kOpen = 5;
constexpr std::size_t kAxes = std::tuple_size_v<decltype(AttentionStep::Operand::strides)>;

class AttentionKind final : public Call {
 public:
  const char* name() const override { return "attention"; }
  std::size_t alternative() const override { return Step(AttentionStep{}).index(); }
  OperandLayout layout(std::size_t) const override { return OperandLayout::Strided; }

  CallDraft draft(const StoredValues& plan, const Value& value, std::size_t, bool) const override {
    CallDraft draft;
    AttentionStep step = attention_of(value);
    step.label = value.label;
    const bool by_library = step.by == AttentionStep::By::Library, gradient = step.gradient;
    const std::span open = std::span(value.attrs).subspan(kBatch, kOpen);
    if (!by_library) draft.sizes.assign(open.begin(), open.end());
    for (const ValueId in : value.in) {
      if (in.is_none()) break;
      const StridedView view = strided_view(plan, in);
      step.reads.emplace_back();
      draft.reads.push_back(view.base);
      if (view.base < 0) continue;
      const Shape& shape = plan.values[static_cast<std::size_t>(static_cast<int>(in))].shape;
      const bool is_mask = step.masked && step.reads.size() == operand_count(step);
      std::array<Extent, kAxes> strides{};
      for (int axis = 0; axis < shape.rank(); ++axis) {
        // A mask is broadcast along its axes of one element.
        const bool repeated = is_mask && shape[axis] == 1;
        strides[static_cast<std::size_t>(axis)] =
            repeated ? Extent(0) : view.strides[static_cast<std::size_t>(axis)];
      }
      draft.sizes.push_back(view.offset);
      draft.sizes.insert(draft.sizes.end(), strides.begin(), strides.end());
    }
    draft.step = std::move(step);
    if (by_library) {
      // A library's graph is made for these strides.
      set_operands(draft.step, fixed(draft.sizes));
      draft.sizes.clear();
      draft.scratch_bytes = std::get<AttentionStep>(draft.step).workspace_bytes;
    } else {
      resize(draft.step, hints(draft.sizes));
      if (gradient) draft.scratch_bytes = open[0] * open[1] * open[3] * sizeof(float);
    }
    return draft;
  }

  bool resize(Step& step, std::span<const std::int64_t> sizes) const override {
    auto& a = std::get<AttentionStep>(step);
    a.batch = sizes[0];
    a.heads = sizes[1];
    a.kv_heads = sizes[2];
    a.queries = sizes[3];
    a.keys = sizes[4];
    set_operands(step, sizes.subspan(kOpen));
    return true;
  }

  CallText text(const Step& step) const override {
    const auto& a = std::get<AttentionStep>(step);
    return {.what = fmt::format("{} {} of {} keys{}{}", a.label,
                                to_string(volta::Shape{a.batch, a.heads, a.queries, a.size}),
                                a.keys, a.causal ? ", causal" : "", a.masked ? ", masked" : ""),
            .schedule = a.by == AttentionStep::By::Library ? "library" : "own kernels"};
  }

  StepCost cost(const Step& step, std::span<const CallBuffer> reads,
                std::span<const CallBuffer> writes) const override {
    const auto& a = std::get<AttentionStep>(step);
    const std::int64_t product = a.batch * a.heads * a.queries * a.keys * a.size;
    const auto bytes = [](std::span<const CallBuffer> buffers) {
      std::uint64_t sum = 0;
      for (const CallBuffer& buffer : buffers)
        sum += size_of(buffer.dtype) * static_cast<std::uint64_t>(buffer.elements);
      return sum;
    };
    return {.bytes_read = bytes(reads),
            .bytes_written = bytes(writes),
            .operations =
                static_cast<std::uint64_t>((a.gradient ? 10 : 4) * product / (a.causal ? 2 : 1))};
  }

  Arithmetic arithmetic(const Step& step) const override {
    return arithmetic_of(std::get<AttentionStep>(step).dtype, false);
  }

  Reference reference(PlanSteps plan) const override {
    return [step = std::get<AttentionStep>(plan.steps.front())](const HostBuffers& host) {
      std::vector<const std::byte*> reads;
      for (const AttentionStep::Operand& read : step.reads) reads.push_back(host.at(read.buffer));
      std::vector<std::byte*> writes;
      for (const BufferRef& buffer : step.writes) writes.push_back(host.at(buffer));
      attend(step, reads, writes);
    };
  }

 private:
  static std::size_t operand_count(const AttentionStep& step) {
    return (step.gradient ? 6u : 3u) + (step.masked ? 1u : 0u);
  }
  // Sets where the operands lie: for each of them an offset and strides.
  static void set_operands(Step& step, std::span<const std::int64_t> numbers) {
    for (AttentionStep::Operand& operand : std::get<AttentionStep>(step).reads) {
      operand.offset = numbers[0];
      std::copy_n(numbers.begin() + 1, kAxes, operand.strides.begin());
      numbers = numbers.subspan(1 + kAxes);
    }
  }
};

}  // namespace

void attend(const AttentionStep& step, std::span<const std::byte* const> reads,
            std::span<std::byte* const> writes) {
  Host(step, reads, writes).run();
}

const Call& attention_call() {
  static const AttentionKind call;
  return call;
}

bool is_attention(const Value& value) { return value.call == &attention_call(); }

AttentionStep attention_of(const Value& value) {
  const std::vector<std::int64_t> attrs = hints(value.attrs);
  AttentionStep step = AttentionStep::of(std::span(attrs).first<kNumbers>());
  step.workspace_bytes = static_cast<std::uint64_t>(attrs[kNumbers]);
  return step;
}

void set_heads_first(Value& value, unsigned heads_first, std::uint64_t workspace_bytes) {
  value.attrs[kHeadsFirst] = heads_first;
  value.attrs[kNumbers] = static_cast<std::int64_t>(workspace_bytes);
}

std::vector<Expr> attention(Lowering& lowering, AttentionStep step, const AttentionExtents& sizes,
                            std::span<const Expr> operands) {
  step.dtype = operands[0].dtype();
  step.batch = sizes.batch.hint();
  step.heads = sizes.heads.hint();
  step.kv_heads = sizes.kv_heads.hint();
  step.queries = sizes.queries.hint();
  step.keys = sizes.keys.hint();
  const DeviceEntry& device = lowering.device();
  const Extent open[kOpen] = {sizes.batch, sizes.heads, sizes.kv_heads, sizes.queries, sizes.keys};
  const bool closed =
      std::none_of(std::begin(open), std::end(open), [](Extent size) { return size.is_open(); });
  // A library would have to be made ready for each size, for as long as hundreds of steps take.
  CallSupport support;
  if (closed && !step.masked) support = device.backend.takes(device.index, step);
  if (!support.taken) {
    step.by = AttentionStep::By::Kernels;
    support = device.backend.takes(device.index, step);
  }
  if (!support.taken) return {};
  const auto like = [&](Extent length, Extent heads) {
    return Shape{sizes.batch, length, heads, step.size};
  };
  Value first{.kind = ValueKind::Call, .dtype = step.dtype};
  first.call = &attention_call();
  first.shape = like(sizes.queries, sizes.heads);
  std::vector<ValueId> in;
  for (const Expr operand : operands) in.push_back(operand.id);
  first.in = Operands(std::move(in));
  const AttentionStep::Numbers numbers = step.numbers();
  first.attrs.assign(numbers.begin(), numbers.end());
  std::copy(std::begin(open), std::end(open), first.attrs.begin() + kBatch);
  first.attrs.push_back(static_cast<std::int64_t>(support.workspace_bytes));
  std::vector<Expr> results{lowering.insert(std::move(first))};
  const auto add = [&](DType dtype, const Shape& shape) {
    results.push_back(
        further_result(lowering, results.front(), static_cast<int>(results.size()), dtype, shape));
  };
  if (step.gradient) {
    add(step.dtype, like(sizes.keys, sizes.kv_heads));
    add(step.dtype, like(sizes.keys, sizes.kv_heads));
  } else {
    add(DType::f32, {sizes.batch, sizes.heads, sizes.queries});
  }
  return results;
}

}  // namespace volta::plan
