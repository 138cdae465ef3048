// Convolutions as calls of oneDNN and cuDNN.
#include "plan/calls/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "backend/registry.h"
#include "plan/lower/index_map.h"

namespace volta::plan {
namespace {

constexpr std::int64_t kToLast[] = {0, 2, 3, 1}, kToSecond[] = {0, 3, 1, 2};

// The attributes of a value: the numbers of the step, the layout of the weights, and the workspace
// size of the library.
constexpr std::size_t kNumbers = std::tuple_size_v<ConvStep::Numbers>;

constexpr auto kOpen = ConvStep::kOpenNumbers;

std::array<Extent, kOpen.size()> open_numbers(const ConvSizes& sizes) {
  return {sizes.images, sizes.in[0], sizes.in[1], sizes.out[0], sizes.out[1]};
}
ConvSizes sizes_of(const Value& value) {
  const std::vector<Extent>& a = value.attrs;
  return {a[kOpen[0]], {a[kOpen[1]], a[kOpen[2]]}, {a[kOpen[3]], a[kOpen[4]]}};
}

std::vector<Extent> pack(const ConvStep& step, const ConvSizes& sizes) {
  const ConvStep::Numbers numbers = step.numbers();
  std::vector<Extent> attrs(numbers.begin(), numbers.end());
  const auto open = open_numbers(sizes);
  for (std::size_t i = 0; i < open.size(); ++i) attrs[kOpen[i]] = open[i];
  attrs.push_back(step.weight_channels_last);
  attrs.push_back(static_cast<std::int64_t>(step.workspace_bytes));
  return attrs;
}

bool has_open(const ConvSizes& sizes) {
  const auto numbers = open_numbers(sizes);
  return std::ranges::any_of(numbers, [](Extent extent) { return extent.is_open(); });
}

// The step that a value stands for at the sizes of planning, without buffers and label.
ConvStep step_of(const Value& value) {
  const std::vector<std::int64_t> attrs = hints(value.attrs);
  ConvStep step = ConvStep::of(std::span(attrs).first<kNumbers>());
  step.weight_channels_last = attrs[kNumbers] != 0;
  step.workspace_bytes = static_cast<std::uint64_t>(attrs[kNumbers + 1]);
  step.may_time = !has_open(sizes_of(value));
  return step;
}

Shape result_shape(const ConvStep& step, const ConvSizes& sizes) {
  switch (step.kind) {
    case ConvStep::Kind::Forward:
      return {sizes.images, sizes.out[0], sizes.out[1], step.c_out};
    case ConvStep::Kind::InputGrad:
      return {sizes.images, sizes.in[0], sizes.in[1], step.c_in};
    case ConvStep::Kind::WeightGrad:
      break;
  }
  if (step.weight_channels_last)
    return {step.c_out, step.kernel[0], step.kernel[1], step.group_in()};
  return {step.c_out, step.group_in(), step.kernel[0], step.kernel[1]};
}

// ---- The reference: the CPU's library, which takes weights in channels-second layout.

// Converts weights from [out, height, width, in] to [out, in, height, width], or back if `last`.
std::vector<std::byte> with_channels(const std::byte* weights, const ConvStep& step, bool last) {
  const std::size_t size = size_of(step.dtype);
  const auto area = static_cast<std::size_t>(step.kernel[0] * step.kernel[1]);
  const auto in = static_cast<std::size_t>(step.group_in());
  const auto out = static_cast<std::size_t>(step.c_out);
  std::vector<std::byte> result(out * in * area * size);
  for (std::size_t o = 0; o < out; ++o) {
    for (std::size_t a = 0; a < area; ++a) {
      for (std::size_t i = 0; i < in; ++i) {
        const std::size_t channels_last = ((o * area + a) * in + i) * size;
        const std::size_t channels_second = ((o * in + i) * area + a) * size;
        std::memcpy(result.data() + (last ? channels_last : channels_second),
                    weights + (last ? channels_second : channels_last), size);
      }
    }
  }
  return result;
}

// A plan of the step with weights in the CPU's layout: leaves a, b and the bias, one output c.
PlanSteps plan_for_cpu(ConvStep step) {
  step.weight_channels_last = false;
  step.a = {BufferRef::Kind::Leaf, 0, 0};
  step.b = {BufferRef::Kind::Leaf, 1, 0};
  step.bias = {BufferRef::Kind::Leaf, 2, 0};
  step.c = {BufferRef::Kind::Output, 0, 0};
  PlanSteps plan;
  const auto sizes = step.operand_sizes();
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::uint64_t>(elements) * size_of(step.dtype);
  };
  plan.leaf_bytes = {bytes(sizes[0]), bytes(sizes[1]), bytes(step.has_bias ? step.c_out : 0)};
  plan.output_bytes = {bytes(sizes[2])};
  plan.steps.emplace_back(std::move(step));
  return plan;
}

void run_on_cpu(Executable& executable, const ConvStep& step, const HostBuffers& host) {
  const bool to_weight = step.kind == ConvStep::Kind::WeightGrad;
  std::byte *b = host.at(step.b), *c = host.at(step.c), *result = c;
  std::vector<std::byte> weights;
  if (step.weight_channels_last && !to_weight) {
    weights = with_channels(b, step, false);
    b = weights.data();
  } else if (step.weight_channels_last) {
    weights.resize(static_cast<std::size_t>(step.weight_size()) * size_of(step.dtype));
    result = weights.data();
  }
  const Address leaves[] = {
      {host.at(step.a), 0}, {b, 0}, {step.has_bias ? host.at(step.bias) : nullptr, 0}};
  const Address outputs[] = {{result, 0}};
  executable.run(leaves, outputs, {}, {});
  if (result == c) return;
  const std::vector<std::byte> turned = with_channels(result, step, true);
  std::memcpy(c, turned.data(), turned.size());
}

// ---- The call.

class ConvolutionKind final : public Call {
 public:
  const char* name() const override { return "convolution"; }
  std::size_t alternative() const override { return Step(ConvStep{}).index(); }

  CallDraft draft(const StoredValues& plan, const Value& value, std::size_t,
                  bool massively_parallel) const override {
    CallDraft draft;
    ConvStep step = step_of(value);
    step.label = value.label;
    for (const ValueId in : value.in) {
      if (!in.is_none()) draft.reads.push_back(reshape_base(plan.values, in));
    }
    draft.scratch_bytes = step.workspace_bytes;
    // At other sizes a GPU's library may need a workspace even if it needs none here.
    if (massively_parallel && !step.may_time && step.workspace_bytes == 0) draft.scratch_bytes = 1;
    const auto open = open_numbers(sizes_of(value));
    draft.sizes.assign(open.begin(), open.end());
    draft.step = std::move(step);
    return draft;
  }

  bool resize(Step& step, std::span<const std::int64_t> sizes) const override {
    auto& conv = std::get<ConvStep>(step);
    conv.n = sizes[0];
    conv.in = {sizes[1], sizes[2]};
    conv.out = {sizes[3], sizes[4]};
    return true;
  }

  bool can_have_epilogue(const Value& value) const override {
    return step_of(value).kind == ConvStep::Kind::Forward;
  }
  // Libraries round the result of a half-precision convolution themselves, after adding the bias.
  bool adds_bias_to_rounded() const override { return true; }
  std::optional<std::vector<Extent>> with_epilogue(const std::vector<Value>&, const Value& value,
                                                   const Epilogue& epilogue,
                                                   const DeviceEntry& device) const override {
    ConvStep step = step_of(value);
    step.has_bias = epilogue.has_bias;
    step.activation = epilogue.activation;
    const CallSupport support = device.backend.takes(device.index, step);
    if (!support.taken || support.weights_channels_last != step.weight_channels_last)
      return std::nullopt;
    step.workspace_bytes = support.workspace_bytes;
    return pack(step, sizes_of(value));
  }

  CallText text(const Step& step) const override {
    const auto& s = std::get<ConvStep>(step);
    return {fmt::format("{} {} with {}{}", s.label,
                        to_string(volta::Shape{s.n, s.in[0], s.in[1], s.c_in}),
                        to_string(volta::Shape{s.c_out, s.kernel[0], s.kernel[1], s.group_in()}),
                        epilogue_text(s.has_bias, s.activation))};
  }

  StepCost cost(const Step& step, std::span<const CallBuffer>,
                std::span<const CallBuffer>) const override {
    const auto& s = std::get<ConvStep>(step);
    const auto [a, b, c] = s.operand_sizes();
    return {.bytes_read = size_of(s.dtype) * static_cast<std::uint64_t>(a + b),
            .bytes_written = size_of(s.dtype) * static_cast<std::uint64_t>(c),
            .operations = static_cast<std::uint64_t>(2 * s.work())};
  }

  Arithmetic arithmetic(const Step& step) const override {
    const auto& s = std::get<ConvStep>(step);
    return arithmetic_of(s.dtype, s.tf32);
  }

  Reference reference(PlanSteps plan) const override {
    const auto& step = std::get<ConvStep>(plan.steps.front());
    const PlanSteps on_cpu = plan_for_cpu(step);
    Backend& cpu = device_entry(Device::cpu()).backend;
    if (!cpu.takes(0, on_cpu.steps.front()).taken) return {};
    const std::shared_ptr<Executable> executable = cpu.prepare(0, on_cpu);
    return [executable, step](const HostBuffers& host) { run_on_cpu(*executable, step, host); };
  }
};

}  // namespace

const Call& convolution_call() {
  static const ConvolutionKind call;
  return call;
}

Expr convolution(Lowering& lowering, ConvStep step, ConvSizes sizes, Expr a, Expr b) {
  const DeviceEntry& device = lowering.device();
  step.may_time = !has_open(sizes);
  step.n = sizes.images.hint();
  step.in = {sizes.in[0].hint(), sizes.in[1].hint()};
  step.out = {sizes.out[0].hint(), sizes.out[1].hint()};
  step.dtype = a.dtype();
  CallSupport support = device.backend.takes(device.index, step);
  if (!support.taken && size_of(step.dtype) == 2) {
    step.dtype = DType::f32;
    support = device.backend.takes(device.index, step);
    a = lowering.cast(a, DType::f32);
    b = lowering.cast(b, DType::f32);
  }
  if (!support.taken) return {};
  step.workspace_bytes = support.workspace_bytes;
  step.weight_channels_last = support.weights_channels_last;
  const bool to_weight = step.kind == ConvStep::Kind::WeightGrad;
  if (step.weight_channels_last && !to_weight) b = lowering.permute(b, kToLast);
  Value value{.kind = ValueKind::Call, .dtype = step.dtype, .shape = result_shape(step, sizes)};
  value.call = &convolution_call();
  value.in = {a.id, b.id};
  value.attrs = pack(step, sizes);
  const Expr result = lowering.insert(std::move(value));
  return to_weight && step.weight_channels_last ? lowering.permute(result, kToSecond) : result;
}

}  // namespace volta::plan
