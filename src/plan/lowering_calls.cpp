// Convolutions and attention as calls of a library, and results of products and attention as they
// are wanted.
#include <algorithm>
#include <bit>
#include <utility>

#include "backend/backend.h"
#include "core/registry.h"
#include "plan/ir.h"

namespace volta::plan {
namespace {

constexpr std::int64_t kToLast[] = {0, 2, 3, 1}, kToSecond[] = {0, 3, 1, 2};

std::vector<std::int64_t> attrs_of(const ConvStep& s) {
  return {static_cast<std::int64_t>(s.kind),
          s.stride[0],
          s.stride[1],
          s.padding[0],
          s.padding[1],
          s.dilation[0],
          s.dilation[1],
          s.groups,
          s.tf32,
          s.weight_channels_last,
          static_cast<std::int64_t>(s.workspace_bytes),
          static_cast<std::int64_t>(s.activation)};
}

}  // namespace

ConvStep conv_of(const std::vector<Value>& values, const Value& v) {
  const Value &a = values[static_cast<std::size_t>(v.in[0])],
              &b = values[static_cast<std::size_t>(v.in[1])];
  ConvStep s;
  s.kind = static_cast<ConvStep::Kind>(v.attrs[0]);
  s.dtype = v.dtype;
  s.stride = {v.attrs[1], v.attrs[2]};
  s.padding = {v.attrs[3], v.attrs[4]};
  s.dilation = {v.attrs[5], v.attrs[6]};
  s.groups = v.attrs[7];
  s.tf32 = v.attrs[8] != 0;
  s.weight_channels_last = v.attrs[9] != 0;
  s.workspace_bytes = static_cast<std::uint64_t>(v.attrs[10]);
  s.activation = static_cast<Activation>(v.attrs[11]);
  s.has_bias = v.in[2] >= 0;
  const bool to_input = s.kind == ConvStep::Kind::InputGrad,
             to_weight = s.kind == ConvStep::Kind::WeightGrad;
  const Shape &input = to_input ? v.shape : a.shape, &weight = to_weight ? v.shape : b.shape,
              &result = to_input    ? a.shape
                        : to_weight ? b.shape
                                    : v.shape;
  s.n = input[0];
  s.in = {input[1], input[2]};
  s.c_in = input[3];
  s.out = {result[1], result[2]};
  s.c_out = result[3];
  const int height = s.weight_channels_last ? 1 : 2;
  s.kernel = {weight[height], weight[height + 1]};
  return s;
}

AttentionStep attention_of(const std::vector<Value>& values, const Value& v) {
  const Shape &q = values[static_cast<std::size_t>(v.in[0])].shape,
              &k = values[static_cast<std::size_t>(v.in[1])].shape;
  AttentionStep a;
  a.gradient = v.attrs[0] != 0;
  a.causal = v.attrs[1] != 0;
  a.scale = std::bit_cast<double>(v.attrs[2]);
  a.workspace_bytes = static_cast<std::uint64_t>(v.attrs[3]);
  a.heads_first = static_cast<unsigned>(v.attrs[4]);
  a.deterministic = v.attrs[5] != 0;
  a.dtype = v.dtype;
  a.batch = q[0];
  a.heads = q[1];
  a.queries = q[2];
  a.size = q[3];
  a.kv_heads = k[1];
  a.keys = k[2];
  return a;
}

Expr Lowering::convolution(ConvStep step, Expr a, Expr b) {
  step.dtype = a.dtype();
  ConvSupport support = device_->backend.convolution(device_->index, step);
  if (support.weights == ConvWeights::None && size_of(step.dtype) == 2) {
    step.dtype = DType::f32;
    support = device_->backend.convolution(device_->index, step);
    a = cast(a, DType::f32);
    b = cast(b, DType::f32);
  }
  if (support.weights == ConvWeights::None) return {};
  step.workspace_bytes = support.workspace_bytes;
  step.weight_channels_last = support.weights == ConvWeights::ChannelsLast;
  const bool to_weight = step.kind == ConvStep::Kind::WeightGrad;
  Value value{.kind = ValueKind::Conv, .dtype = step.dtype};
  if (step.kind == ConvStep::Kind::Forward) {
    value.shape = {step.n, step.out[0], step.out[1], step.c_out};
  } else if (step.kind == ConvStep::Kind::InputGrad) {
    value.shape = {step.n, step.in[0], step.in[1], step.c_in};
  } else if (step.weight_channels_last) {
    value.shape = {step.c_out, step.kernel[0], step.kernel[1], step.group_in()};
  } else {
    value.shape = {step.c_out, step.group_in(), step.kernel[0], step.kernel[1]};
  }
  const bool turned = step.weight_channels_last && !to_weight;
  value.in = {a.id, turned ? permute(b, kToLast).id : b.id, -1};
  value.attrs = attrs_of(step);
  const Expr result = insert(std::move(value));
  return to_weight && step.weight_channels_last ? permute(result, kToSecond) : result;
}

std::vector<Expr> Lowering::attention(AttentionStep step, std::span<const Expr> operands) {
  step.dtype = operands[0].dtype();
  const auto workspace = device_->backend.attention(device_->index, step);
  if (!workspace) return {};
  const auto like = [&](std::int64_t length, std::int64_t heads) {
    return Shape{step.batch, length, heads, step.size};
  };
  Value first{.kind = ValueKind::Attention, .dtype = step.dtype};
  first.shape = like(step.queries, step.heads);
  for (std::size_t i = 0; i < operands.size(); ++i) first.in[i] = operands[i].id;
  first.attrs = {step.gradient,
                 step.causal,
                 std::bit_cast<std::int64_t>(step.scale),
                 static_cast<std::int64_t>(*workspace),
                 0,
                 step.deterministic};
  std::vector<Expr> results{insert(std::move(first))};
  const auto add = [&](const Shape& shape, DType dtype) {
    Value next{.kind = ValueKind::StepResult, .dtype = dtype, .shape = shape};
    next.in[0] = results.front().id;
    next.number = static_cast<int>(results.size());
    results.push_back(insert(std::move(next)));
  };
  if (step.gradient) {
    add(like(step.keys, step.kv_heads), step.dtype);
    add(like(step.keys, step.kv_heads), step.dtype);
  } else {
    add({step.batch, step.heads, step.queries}, DType::f32);
  }
  return results;
}

// A product of which only the transpose is wanted is computed the other way round:
// (a b)^T = b^T a^T.
void Lowering::turn_products(const graph::Batch& batch) {
  const std::vector<int> uses = count_uses(batch);
  for (Value& v : values) {
    if (v.kind != ValueKind::Permute) continue;
    const std::size_t operand = static_cast<std::size_t>(v.in[0]);
    const Value& product = values[operand];
    const std::vector<std::int64_t> turned =
        v.shape.rank() == 2 ? std::vector<std::int64_t>{1, 0} : std::vector<std::int64_t>{0, 2, 1};
    if (product.kind != ValueKind::Matmul || uses[operand] != 1 || v.attrs != turned) continue;
    v.kind = ValueKind::Matmul;
    v.in = {product.in[1], product.in[0], -1};
    v.attrs = {product.attrs[1] == 0, product.attrs[0] == 0, product.attrs[2], 0};
    v.label = product.label;
  }
}

bool Lowering::multiplies_halves(DType dtype) const {
  return size_of(dtype) == 2 && device_->backend.multiplies_halves(device_->index, dtype);
}

// A product of halves of which only the rounded value is wanted is rounded where it is computed.
void Lowering::round_products(const graph::Batch& batch) {
  const std::vector<int> uses = count_uses(batch);
  for (Value& v : values) {
    if (v.kind != ValueKind::Cast) continue;
    const std::size_t operand = static_cast<std::size_t>(v.in[0]);
    const Value& product = values[operand];
    if (product.kind != ValueKind::Matmul || uses[operand] != 1) continue;
    if (values[static_cast<std::size_t>(product.in[0])].dtype != v.dtype) continue;
    v.kind = ValueKind::Matmul;
    v.in = product.in;
    v.attrs = product.attrs;
    v.label = product.label;
  }
}

// A network wants the results of attention with the heads second last: they are one row for the
// product that follows. What somebody holds with the heads first is written so at once.
void Lowering::turn_attentions(const graph::Batch& batch) {
  const auto is_result = [&](const Value& v) {
    return v.kind == ValueKind::Attention ||
           (v.kind == ValueKind::StepResult &&
            values[static_cast<std::size_t>(v.in[0])].kind == ValueKind::Attention);
  };
  if (std::none_of(values.begin(), values.end(), is_result)) return;
  std::vector<int> uses = count_uses(batch);
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Further results are no readers of the first.
    if (values[i].kind == ValueKind::StepResult && uses[i] > 0)
      --uses[static_cast<std::size_t>(values[i].in[0])];
  }
  const std::vector<bool> wanted = wanted_values(batch);
  const std::vector<std::int64_t> turn{0, 2, 1, 3};
  std::vector<bool> turned(values.size(), false);           // results
  std::vector<std::int64_t> heads_first(values.size(), 0);  // per Attention: which of them
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Value& v = values[i];
    if (v.kind != ValueKind::Permute || v.attrs != turn || !wanted[i]) continue;
    const auto operand = static_cast<std::size_t>(v.in[0]);
    const Value& result = values[operand];
    if (!is_result(result) || uses[operand] != 1) continue;
    const bool first = result.kind == ValueKind::Attention;
    turned[operand] = true;
    heads_first[first ? operand : static_cast<std::size_t>(result.in[0])] |=
        std::int64_t{1} << (first ? 0 : result.number);
  }
  // The library has the last word.
  std::vector<std::uint64_t> workspace(values.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (heads_first[i] == 0) continue;
    AttentionStep step = attention_of(values, values[i]);
    step.heads_first = static_cast<unsigned>(heads_first[i]);
    const auto needed = device_->backend.attention(device_->index, step);
    if (needed) {
      workspace[i] = *needed;
      continue;
    }
    heads_first[i] = 0;
    turned[i] = false;
    for (std::size_t result = 0; result < values.size(); ++result) {
      if (values[result].kind == ValueKind::StepResult &&
          values[result].in[0] == static_cast<int>(i))
        turned[result] = false;
    }
  }
  if (std::none_of(turned.begin(), turned.end(), [](bool is) { return is; })) return;
  const std::vector<Value> before = values;
  rebuild([&](std::size_t i, Value v, const std::vector<int>&) {
    if (v.kind == ValueKind::Permute && turned[static_cast<std::size_t>(before[i].in[0])])
      return Expr{this, v.in[0]};
    if (heads_first[i] != 0) {
      v.attrs[3] = static_cast<std::int64_t>(workspace[i]);
      v.attrs[4] = heads_first[i];
    }
    if (turned[i]) v.shape = {v.shape[0], v.shape[2], v.shape[1], v.shape[3]};
    return insert(std::move(v));
  });
}

}  // namespace volta::plan
