// Runs steps on a device and on the CPU and compares their results.
#include "runtime/check/check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/convert.h"
#include "plan/calls/call.h"
#include "plan/explain.h"
#include "platform/env.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::plan {
namespace {

// The tolerance of a result, relative to the element and to the root mean square of all elements:
// the CPU sums in another order, and functions round differently.
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
  std::unique_ptr<Executable> on_device;
  std::unique_ptr<Executable> on_cpu;  // set if the step is a kernel or a loop
  Reference reference;                 // set if the step is another call
  std::vector<WrittenBuffer> written;
  bool can_check() const { return on_cpu != nullptr || reference != nullptr; }
};

// The plan's buffers in host memory. An output that takes over a leaf's memory on the device does
// so here too.
struct CheckedSteps::Host {
  std::vector<std::vector<std::byte>> leaf_bytes, output_bytes;
  std::vector<std::byte> arena_bytes;
  std::vector<Address> leaves, outputs;
  Address arena;

  HostBuffers buffers() const { return {leaves, outputs, arena}; }
  std::byte* at(const BufferRef& buffer) const { return buffers().at(buffer); }
};

CheckedSteps::CheckedSteps(DeviceEntry& entry, const PlanSteps& steps)
    : entry_(entry), plan_(steps) {
  Backend& cpu = device_entry(Device::cpu()).backend;
  for (const plan::Step& step : steps.steps) {
    PlanSteps one;
    one.id = steps.id;
    one.low_memory = true;
    one.leaf_bytes = steps.leaf_bytes;
    one.output_bytes = steps.output_bytes;
    one.arena_bytes = steps.arena_bytes;
    one.arg_words = steps.arg_words;
    one.steps.push_back(step);
    auto checked = std::make_unique<Step>();
    checked->written = written_by(step);
    checked->on_device = entry.backend.prepare(entry.index, one);
    const Call* const call = call_of(step);
    if (call != nullptr && !std::holds_alternative<LoopStep>(step)) {
      checked->reference = call->reference(std::move(one));
    } else {
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
    // The CPU starts from the values that earlier steps left on the device.
    for (std::size_t i = 0; i < outputs.size(); ++i)
      fetch(host.at({BufferRef::Kind::Output, static_cast<std::uint32_t>(i), 0}), outputs[i],
            plan_.output_bytes[i]);
    fetch(host.arena_bytes.data(), arena, plan_.arena_bytes);
    issued = number + 1;
    step.on_device->run(leaves, outputs, arena, args);
    if (step.on_cpu != nullptr) {
      step.on_cpu->run(host.leaves, host.outputs, host.arena, args);
    } else if (step.reference != nullptr) {
      step.reference(host.buffers());
    }
    check_indices(step, number);
    if (step.can_check()) compare(step, number, host, outputs, arena);
  }
}

std::optional<kernel::ErrorRecord> CheckedSteps::take_error() {
  return std::exchange(error_, std::nullopt);
}

// Compares whether both sides met a wrong index. Results cannot show that, because both sides
// clamp; and the reported index may differ, because each side reports any one of several.
void CheckedSteps::check_indices(const Step& step, std::size_t number) {
  entry_.backend.synchronize(entry_.index);
  const std::optional<kernel::ErrorRecord> device = step.on_device->take_error();
  if (device && !error_) error_ = device;
  if (!step.can_check()) return;
  // Reference calls on the CPU check no indices.
  std::optional<kernel::ErrorRecord> cpu;
  if (step.on_cpu != nullptr) cpu = step.on_cpu->take_error();
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
  // The offsets at which temporaries begin. A temporary ends at the next offset at the latest;
  // bytes between its end and that offset are the same on both sides.
  std::set<std::uint64_t> begins{plan_.arena_bytes};
  // A library's scratch memory has arbitrary contents, so the comparison must end where it begins.
  for (const plan::Step& other : plan_.steps) {
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { one.scratch; }) begins.insert(one.scratch.offset);
        },
        other);
  }
  for (const auto& other : steps_) {
    for (const WrittenBuffer& written : other->written) {
      if (written.buffer.kind == BufferRef::Kind::Temp) begins.insert(written.buffer.offset);
    }
  }
  for (const WrittenBuffer& written : step.written) {
    const BufferRef& buffer = written.buffer;
    if (buffer.kind == BufferRef::Kind::Leaf)
      continue;  // compared through the output that takes it over
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
    convert(device.data(), written.dtype, theirs.data(), DType::f64, count);
    convert(cpu, written.dtype, ours.data(), DType::f64, count);
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
