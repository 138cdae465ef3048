// Prepares the steps of a plan and runs them.
#include "backend/opencl/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "backend/common/matmul_program.h"
#include "backend/common/sort_launches.h"
#include "backend/opencl/gemm_launch.h"
#include "backend/opencl/horizontal_launch.h"
#include "core/heap_bytes.h"
#include "kernel/emit.h"
#include "volta/error.h"

namespace volta::opencl {

OpenClExecutable::OpenClExecutable(std::shared_ptr<DeviceContext> device,
                                   const plan::PlanSteps& steps)
    : device_(std::move(device)), plan_(steps.id), stream_number_(steps.stream) {
  const DeviceContext::ActiveStream active(*device_, stream_number_);
  if (steps.arg_words > 0) {
    arg_bytes_ = steps.arg_words * sizeof(std::uint64_t);
    args_ = device_->allocate(arg_bytes_, "the argument block of a plan");
  }
  std::vector<Compiler::Wanted> kernels;
  Compiler::Programs known;  // kept until the kernels are made
  const std::vector<Prepared> prepared = prepare(steps.steps, kernels, known);
  if (checks_indices_) {
    error_ = device_->allocate(sizeof(kernel::ErrorRecord), "the error record of a plan");
    write_error({});
  }
  // All kernels are built in parallel.
  const Compiler::Programs programs = device_->compiler().prepare(std::move(kernels));
  for (const Prepared& next : prepared) {
    add(next, launches_);
    numbers_.resize(launches_.size(), static_cast<std::uint32_t>(&next - prepared.data()));
  }
  measure();
}

std::vector<OpenClExecutable::Prepared> OpenClExecutable::prepare(
    const std::vector<plan::Step>& steps, std::vector<Compiler::Wanted>& kernels,
    Compiler::Programs& known) {
  std::vector<Prepared> prepared;
  prepared.reserve(steps.size());
  for (const plan::Step& step : steps) {
    Prepared& next = prepared.emplace_back(Prepared{step});
    if (const auto* loop = std::get_if<plan::LoopStep>(&step)) {
      for (const plan::LoopPart& part : loop->parts)
        next.parts.push_back(prepare(part.steps, kernels, known));
      continue;
    }
    // The kernels' labels are those of the caller's steps, which live on.
    if (const auto* product = std::get_if<plan::MatmulStep>(&step)) {
      if (takes_tiles(device_->info(), *product)) {
        next.product = product_launches(device_->info(), *product);
        for (const GemmLaunch& launch : next.product->launches)
          kernels.push_back({launch.source, &product->label});
      } else {
        next.step = lower_matmul(*product);
        const auto& kernel = std::get<plan::KernelStep>(next.step);
        kernels.push_back(
            {kernel::emit(*kernel.program, kernel::Dialect::OpenCL), &product->label});
      }
    } else if (const auto* kernel = std::get_if<plan::KernelStep>(&step)) {
      checks_indices_ |= kernel::analyze(*kernel->program).has_bounded;
      if (Compiler::Program built = device_->compiler().find(kernel->program)) {
        known.push_back(std::move(built));
      } else {
        kernels.push_back({kernel::emit(*kernel->program, kernel::Dialect::OpenCL), &kernel->label,
                           kernel->program});
      }
    }
  }
  return prepared;
}

void OpenClExecutable::add(const Prepared& step, Launches& launches) {
  if (step.product) {
    launches.push_back(std::make_unique<GemmKernelsLaunch>(
        *device_, std::get<plan::MatmulStep>(step.step), *step.product));
    return;
  }
  if (const auto* loop = std::get_if<plan::LoopStep>(&step.step)) {
    std::vector<LoopLaunch::Part> parts;
    for (std::size_t n = 0; n < step.parts.size(); ++n) {
      parts.push_back({.first = loop->parts[n].first, .count = loop->parts[n].count});
      for (const Prepared& one : step.parts[n]) add(one, parts.back().launches);
    }
    launches.push_back(std::make_unique<LoopLaunch>(std::move(parts)));
    return;
  }
  std::visit(
      [&](const auto& kind) {
        if constexpr (requires { this->add(kind, launches); }) {
          add(kind, launches);
        } else {
          throw BackendError(fmt::format("{}: OpenCL has no library for this call", kind.label));
        }
      },
      step.step);
}

void OpenClExecutable::add(const plan::KernelStep& step, Launches& launches) {
  if (step.program->schedule.horizontal) {
    launches.push_back(std::make_unique<HorizontalLaunch>(*device_, step, blocks()));
    return;
  }
  for (const plan::Binding& binding : step.segments) {
    if (kernel::block_count(*step.program, binding.ints) == 0) continue;
    launches.push_back(
        std::make_unique<KernelLaunch>(*device_, step.program, binding, blocks(), step.label));
  }
}

void OpenClExecutable::add(const plan::SortStep& step, Launches& launches) {
  for (const SortLaunch& launch : sort_launches(step, kernel::Dialect::OpenCL))
    launches.push_back(std::make_unique<KernelLaunch>(*device_, launch, step.label));
}

void OpenClExecutable::run(std::span<const Address> leaves, std::span<const Address> outputs,
                           Address arena, std::span<const std::uint64_t> args) {
  device_->guarded([&] {
    const DeviceContext::ActiveStream active(*device_, stream_number_);
    enqueue(leaves, outputs, arena, args);
  });
}

void OpenClExecutable::enqueue(std::span<const Address> leaves, std::span<const Address> outputs,
                               Address arena, std::span<const std::uint64_t> args) {
  device_->follow_profiler();
  device_->timeline().set_span(
      {.kind = profiling::Span::Kind::Upload, .stream = stream_number_});  // tables and arguments
  const std::uint64_t releases = device_->releases();
  const RunBuffers buffers{leaves, outputs, arena, releases != releases_};
  for (const auto& launch : launches_) launch->bind(buffers);
  releases_ = releases;
  if (!std::exchange(measured_, true)) measure();
  if (args_ && !std::ranges::equal(args, written_args_)) {
    written_args_.clear();
    device_->write(args_.get(), 0, args.data(), args.size_bytes());
    written_args_.assign(args.begin(), args.end());
  }
  error_used_ = static_cast<bool>(error_);
  for (std::size_t i = 0; i < launches_.size(); ++i) {
    device_->timeline().set_span({.plan = plan_, .step = numbers_[i], .stream = stream_number_});
    const std::uint64_t enqueued = device_->enqueued();
    try {
      launches_[i]->enqueue(buffers);
    } catch (...) {
      if (device_->enqueued() != enqueued)
        issued = numbers_[i] + 1;  // some kernels of this launch were enqueued
      throw;
    }
    issued = numbers_[i] + 1;
  }
  check(clFlush(device_->queue()), "clFlush");
}

void OpenClExecutable::measure() {
  held = {.host = sizeof(*this) + heap_bytes(launches_) + heap_bytes(numbers_) +
                  2 * heap_bytes(written_args_),
          .device = arg_bytes_};
  for (const auto& launch : launches_) {
    const HeldBytes more = launch->held();
    held.host += more.host;
    held.device += more.device;
  }
}

std::optional<kernel::ErrorRecord> OpenClExecutable::take_error() {
  if (!error_used_) return std::nullopt;
  const auto record = device_->guarded([&] {
    kernel::ErrorRecord read;
    // Kernels that have ended have written their errors. Later runs may continue; they are waited
    // for only if there is an error to clear.
    try {
      device_->reads().read(&read, error_.get(), 0, sizeof(read), true);
    } catch (...) {
      clFinish(device_->reads().queue());  // the read may still be writing to `read`
      throw;
    }
    if (read.claimed == 0) return read;
    const DeviceContext::ActiveStream active(*device_, stream_number_);
    check_wait(clEnqueueReadBuffer(device_->queue(), error_.get(), CL_TRUE, 0, sizeof(read), &read,
                                   0, nullptr, nullptr),
               "clEnqueueReadBuffer");
    if (read.claimed != 0) write_error({});
    return read;
  });
  if (record.claimed == 0) return std::nullopt;
  // Cleared only after success: an error that was not reported now is reported next time.
  error_used_ = false;
  return record;
}

void OpenClExecutable::write_error(const kernel::ErrorRecord& record) {
  device_->write(error_.get(), 0, &record, sizeof(record));
}

}  // namespace volta::opencl
