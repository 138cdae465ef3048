// Steps on a device beside the same steps on the CPU.
#include "plan/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "backend/cpu/conv.h"
#include "backend/matmul_program.h"
#include "graph/host.h"
#include "plan/attention_reference.h"
#include "plan/explain.h"
#include "platform/env.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::plan {
namespace {

// What a result may differ by, relative to the element and to the root mean square of all: sums are
// added up in another order, functions round differently.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-9;
    case DType::f32:
      return 2e-4;
    case DType::f16:
      return 5e-3;
    case DType::bf16:
      return 4e-2;
    default:
      return 0;
  }
}

// A buffer that a step writes.
struct Written {
  BufferRef buffer;
  DType dtype = DType::f32;
};

std::vector<Written> written_by(const Step& step) {
  std::vector<Written> written;
  if (const auto* kernel = std::get_if<KernelStep>(&step)) {
    for (const Binding& segment : kernel->segments) {
      for (std::size_t slot = 0; slot < kernel->program->slots.size(); ++slot) {
        const kernel::Slot& one = kernel->program->slots[slot];
        if (one.written) written.push_back({segment.buffers[slot], one.dtype});
      }
    }
  } else if (const auto* product = std::get_if<MatmulStep>(&step)) {
    written.push_back({product->c, product->result_dtype()});
    if (product->keeps_input) written.push_back({product->other, product->result_dtype()});
  } else if (const auto* sort = std::get_if<SortStep>(&step)) {
    written.push_back({sort->indices, sort->index_dtype});
    if (sort->has_values) written.push_back({sort->values, sort->dtype});
  } else if (const auto* conv = std::get_if<ConvStep>(&step)) {
    written.push_back({conv->c, conv->dtype});
  } else if (const auto* attention = std::get_if<AttentionStep>(&step)) {
    for (std::size_t i = 0; i < attention->writes.size(); ++i) {
      const bool logs = !attention->gradient && i == 1;
      written.push_back({attention->writes[i], logs ? DType::f32 : attention->dtype});
    }
  }
  return written;
}

// Weights [out, height, width, in] as [out, in, height, width], or back.
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

}  // namespace

bool checks_steps() {
  static const bool wanted = [] {
    const std::optional<std::string> value = platform::environment("VOLTA_CHECK");
    if (!value || *value == "off") return false;
    if (*value == "cpu") return true;
    throw ArgumentError(fmt::format("VOLTA_CHECK={}: expected cpu or off", *value));
  }();
  return wanted;
}

struct CheckedSteps::Step {
  std::unique_ptr<Executable> on_device, on_cpu;
  // A convolution is the CPU's library call with weights as that wants them.
  std::optional<ConvStep> convolution;
  std::unique_ptr<cpu::Conv> call;
  const AttentionStep* attention = nullptr;
  std::vector<Written> written;
  bool can_check() const { return on_cpu != nullptr || call != nullptr || attention != nullptr; }
};

// The plan's buffers in the host's memory. Outputs lie where the device has them: in a leaf, if it
// gave its memory to them.
struct CheckedSteps::Host {
  std::vector<std::vector<std::byte>> leaf_bytes, output_bytes;
  std::vector<std::byte> arena_bytes;
  std::vector<Address> leaves, outputs;
  Address arena;

  std::byte* at(const BufferRef& buffer) {
    const Address& address = buffer.kind == BufferRef::Kind::Leaf     ? leaves[buffer.index]
                             : buffer.kind == BufferRef::Kind::Output ? outputs[buffer.index]
                                                                      : arena;
    return static_cast<std::byte*>(address.pointer()) + buffer.offset;
  }
};

CheckedSteps::CheckedSteps(DeviceEntry& entry, const PlanSteps& steps)
    : entry_(entry), plan_(steps) {
  Backend& cpu = device_entry(Device::cpu()).backend;
  for (const plan::Step& step : steps.steps) {
    PlanSteps one;
    one.id = steps.id;
    one.frugal = true;
    one.leaf_bytes = steps.leaf_bytes;
    one.output_bytes = steps.output_bytes;
    one.arena_bytes = steps.arena_bytes;
    one.arg_words = steps.arg_words;
    one.steps.push_back(step);
    auto checked = std::make_unique<Step>();
    checked->written = written_by(step);
    checked->on_device = entry.backend.prepare(entry.index, one);
    if (const auto* conv = std::get_if<ConvStep>(&step)) {
      ConvStep same = *conv;
      same.weight_channels_last = false;
      if (cpu::takes_conv(same)) {
        checked->call = cpu::make_conv(same);
        checked->convolution = *conv;
      }
    } else if (const auto* attention = std::get_if<AttentionStep>(&step)) {
      checked->attention = attention;
    } else {
      if (const auto* product = std::get_if<MatmulStep>(&step);
          product != nullptr && (product->activation != Activation::None || product->keeps_input))
        one.steps.front() = lower_matmul(*product);
      checked->on_cpu = cpu.prepare(0, one);
    }
    if (!checked->can_check()) {
      log(LogLevel::info, fmt::format("VOLTA_CHECK=cpu: the CPU has nothing to compare \"{}\" with",
                                      describe(step, {}, {}).what));
    }
    steps_.push_back(std::move(checked));
  }
}

CheckedSteps::~CheckedSteps() = default;

void CheckedSteps::run(std::span<const Address> leaves, std::span<const Address> outputs,
                       Address arena, std::span<const std::uint64_t> args) {
  const auto fetch = [&](std::byte* to, Address from, std::uint64_t bytes) {
    if (bytes > 0) entry_.backend.download(entry_.index, to, from, bytes);
  };
  Host host;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    host.leaf_bytes.emplace_back(plan_.leaf_bytes[i]);
    fetch(host.leaf_bytes.back().data(), leaves[i], plan_.leaf_bytes[i]);
    host.leaves.push_back({host.leaf_bytes.back().data(), 0});
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto donor = std::find(leaves.begin(), leaves.end(), outputs[i]);
    host.output_bytes.emplace_back(donor == leaves.end() ? plan_.output_bytes[i] : 0);
    host.outputs.push_back(donor == leaves.end()
                               ? Address{host.output_bytes.back().data(), 0}
                               : host.leaves[static_cast<std::size_t>(donor - leaves.begin())]);
  }
  host.arena_bytes.resize(plan_.arena_bytes);
  host.arena = {host.arena_bytes.data(), 0};

  for (std::size_t number = 0; number < steps_.size(); ++number) {
    const Step& step = *steps_[number];
    // What earlier steps left on the device is what this one begins with.
    for (std::size_t i = 0; i < outputs.size(); ++i)
      fetch(host.at({BufferRef::Kind::Output, static_cast<std::uint32_t>(i), 0}), outputs[i],
            plan_.output_bytes[i]);
    fetch(host.arena_bytes.data(), arena, plan_.arena_bytes);
    issued = number + 1;
    step.on_device->run(leaves, outputs, arena, args);
    if (step.on_cpu != nullptr) {
      step.on_cpu->run(host.leaves, host.outputs, host.arena, args);
    } else if (step.call != nullptr) {
      const ConvStep& conv = *step.convolution;
      const bool of_weights = conv.kind == ConvStep::Kind::WeightGrad;
      const std::byte* b = host.at(conv.b);
      std::byte* c = host.at(conv.c);
      std::vector<std::byte> weights;
      if (conv.weight_channels_last && !of_weights) {
        weights = with_channels(b, conv, false);
        b = weights.data();
      } else if (conv.weight_channels_last) {
        weights.resize(static_cast<std::size_t>(conv.weight_size()) * size_of(conv.dtype));
      }
      std::byte* result = of_weights && conv.weight_channels_last ? weights.data() : c;
      step.call->run(host.at(conv.a), b, result, conv.has_bias ? host.at(conv.bias) : nullptr);
      if (result != c) {
        const std::vector<std::byte> turned = with_channels(result, conv, true);
        std::memcpy(c, turned.data(), turned.size());
      }
    } else if (step.attention != nullptr) {
      std::vector<const std::byte*> reads;
      for (const AttentionStep::Operand& read : step.attention->reads)
        reads.push_back(host.at(read.buffer));
      std::vector<std::byte*> writes;
      for (const BufferRef& buffer : step.attention->writes) writes.push_back(host.at(buffer));
      attend(*step.attention, reads, writes);
    }
    check_indices(step, number);
    if (step.can_check()) compare(step, number, host, outputs, arena);
  }
}

std::optional<kernel::ErrorRecord> CheckedSteps::take_error() {
  return std::exchange(error_, std::nullopt);
}

// Both sides go on with an index that is in range: the results tell nothing. Of several wrong ones
// each side tells any.
void CheckedSteps::check_indices(const Step& step, std::size_t number) {
  entry_.backend.synchronize(entry_.index);
  const std::optional<kernel::ErrorRecord> device = step.on_device->take_error();
  if (device && !error_) error_ = device;
  if (step.on_cpu == nullptr) return;
  const std::optional<kernel::ErrorRecord> cpu = step.on_cpu->take_error();
  if (device.has_value() == cpu.has_value()) return;
  const kernel::ErrorRecord& record = device ? *device : *cpu;
  const std::string name = to_string(entry_.device);
  const StepInfo info = describe(plan_.steps[number], {}, {});
  throw BackendError(
      fmt::format("VOLTA_CHECK=cpu: step {} of {}, {} \"{}\", differs: index {} is out of range "
                  "[0, {}) on {}, but none is on {}",
                  number + 1, steps_.size(), info.kind, info.what, record.index, record.high,
                  device ? name : "cpu", device ? "cpu" : name));
}

void CheckedSteps::compare(const Step& step, std::size_t number, Host& host,
                           std::span<const Address> outputs, Address arena) const {
  // Where the plan's temporaries begin: one ends where another does at the latest. What lies
  // between is the same on both sides.
  std::set<std::uint64_t> begins{plan_.arena_bytes};
  for (const plan::Step& other : plan_.steps) {  // libraries leave there what they like
    if (const auto* sort = std::get_if<SortStep>(&other)) begins.insert(sort->scratch.offset);
    if (const auto* conv = std::get_if<ConvStep>(&other)) begins.insert(conv->scratch.offset);
    if (const auto* attention = std::get_if<AttentionStep>(&other))
      begins.insert(attention->scratch.offset);
  }
  for (const auto& other : steps_) {
    for (const Written& written : other->written) {
      if (written.buffer.kind == BufferRef::Kind::Temp) begins.insert(written.buffer.offset);
    }
  }
  for (const Written& written : step.written) {
    const BufferRef& buffer = written.buffer;
    if (buffer.kind == BufferRef::Kind::Leaf) continue;  // its output is compared
    const bool is_output = buffer.kind == BufferRef::Kind::Output;
    const std::uint64_t bytes = is_output ? plan_.output_bytes[buffer.index]
                                          : *begins.upper_bound(buffer.offset) - buffer.offset;
    std::vector<std::byte> device(bytes);
    Address from = is_output ? outputs[buffer.index] : arena;
    from.offset += buffer.offset;
    entry_.backend.download(entry_.index, device.data(), from, bytes);
    const std::byte* cpu = host.at(buffer);
    if (std::memcmp(device.data(), cpu, bytes) == 0) continue;

    const std::size_t count = bytes / size_of(written.dtype);
    std::vector<double> ours(count), theirs(count);
    graph::convert(device.data(), written.dtype, theirs.data(), DType::f64, count);
    graph::convert(cpu, written.dtype, ours.data(), DType::f64, count);
    double squares = 0;
    std::size_t finite = 0;
    for (const double value : ours) {
      if (!std::isfinite(value)) continue;
      squares += value * value;
      ++finite;
    }
    const double typical = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double a = theirs[i], b = ours[i];
      if (a == b || (std::isnan(a) && std::isnan(b))) continue;
      const double allowed = tolerance(written.dtype) * (std::fabs(b) + typical);
      if (std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= allowed) continue;
      const StepInfo info = describe(plan_.steps[number], {}, {});
      throw BackendError(
          fmt::format("VOLTA_CHECK=cpu: step {} of {}, {} \"{}\", differs on {}: element {} of {} "
                      "{} is {:.9g}, "
                      "on the CPU {:.9g}",
                      number + 1, steps_.size(), info.kind, info.what, to_string(entry_.device), i,
                      count, name_of(written.dtype), a, b));
    }
  }
}

}  // namespace volta::plan
