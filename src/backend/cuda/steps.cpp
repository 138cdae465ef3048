// Preparing and issuing the steps of a plan.
#include "backend/cuda/steps.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/matmul_program.h"
#include "backend/sort_launches.h"
#include "volta/error.h"

namespace volta::cuda {
namespace {

// Far above what the planner puts into one kernel.
constexpr std::size_t kMaxBuffers = 128;

CUdeviceptr operand(CUdeviceptr base, std::int64_t offset, DType dtype) {
  return base + static_cast<CUdeviceptr>(offset) * size_of(dtype);
}

unsigned grid_size(std::int64_t blocks, const std::string& label) {
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    throw BackendError(fmt::format("{}: {} blocks are more than one launch takes", label, blocks));
  }
  return static_cast<unsigned>(blocks);
}

// The integers as the kernel's parameter struct: all int, or all long long.
std::vector<std::byte> pack(const std::vector<std::int64_t>& ints, bool wide,
                            const std::string& label) {
  const std::size_t width = wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
  std::vector<std::byte> packed(ints.size() * width);
  for (std::size_t i = 0; i < ints.size(); ++i) {
    const std::int32_t narrow = static_cast<std::int32_t>(ints[i]);
    if (!wide && narrow != ints[i]) {
      throw BackendError(
          fmt::format("{}: {} does not fit the kernel's 32-bit indices", label, ints[i]));
    }
    const void* source = wide ? static_cast<const void*>(&ints[i]) : &narrow;
    std::memcpy(packed.data() + i * width, source, width);
  }
  return packed;
}

bool is_empty(const plan::MatmulStep& step) {
  return step.m == 0 || step.n == 0 || step.batch == 0;
}

}  // namespace

PreparedSteps::PreparedSteps(const Context& context, Modules& modules, MatmulLibrary& matmuls,
                             CudnnLibrary& cudnn, const plan::PlanSteps& steps)
    : context_(context),
      modules_(modules),
      matmuls_(matmuls),
      cudnn_(cudnn),
      lane_(steps.lane),
      last_writers_(steps.output_bytes.size()) {
  std::vector<kernel::KernelSource> sources;
  const auto writes = [&](const plan::BufferRef& buffer) {
    if (buffer.kind == plan::BufferRef::Kind::Output) last_writers_[buffer.index] = steps_.size();
  };
  const bool multiplies = std::ranges::any_of(steps.steps, [](const plan::Step& step) {
    return std::holds_alternative<plan::MatmulStep>(step);
  });
  if (multiplies) matmuls_.open_lane(lane_, steps.frugal);
  std::uint32_t number = 0;
  for (const plan::Step& step : steps.steps) {
    if (const auto* kernel_step = std::get_if<plan::KernelStep>(&step)) {
      const kernel::Program& program = *kernel_step->program;
      for (const plan::Binding& segment : kernel_step->segments) {
        for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
          if (program.slots[slot].written) writes(segment.buffers[slot]);
        }
      }
      sources.push_back(kernel::emit(program, kernel::Dialect::Cuda));
      steps_.emplace_back(lay_out(*kernel_step));
    } else if (const auto* matmul = std::get_if<plan::MatmulStep>(&step)) {
      writes(matmul->c);
      if (matmul->keeps_input) writes(matmul->other);
      steps_.emplace_back(ProductStep{*matmul, nullptr, {}, {}});
    } else if (const auto* conv = std::get_if<plan::ConvStep>(&step)) {
      writes(conv->c);
      ConvCall call{*conv, cudnn_.convolution(*conv)};
      if (call.convolution == nullptr ||
          CudnnLibrary::workspace_bytes(*call.convolution) > conv->workspace_bytes) {
        throw BackendError(fmt::format("{}: cuDNN takes the convolution no longer", conv->label));
      }
      steps_.emplace_back(std::move(call));
    } else if (const auto* attention = std::get_if<plan::AttentionStep>(&step)) {
      for (const plan::BufferRef& buffer : attention->writes) writes(buffer);
      AttentionCallStep call{*attention, cudnn_.attention(*attention)};
      if (call.call == nullptr ||
          CudnnLibrary::workspace_bytes(*call.call) > attention->workspace_bytes) {
        throw BackendError(
            fmt::format("{}: cuDNN does not take its operands as they lie", attention->label));
      }
      steps_.emplace_back(std::move(call));
    } else {
      const auto& sort = std::get<plan::SortStep>(step);
      for (SortLaunch& part : sort_launches(sort, kernel::Dialect::Cuda)) {
        writes(sort.indices);
        if (sort.has_values) writes(sort.values);
        steps_.emplace_back(lay_out(part, sort.label));
        sources.push_back(std::move(part.source));
      }
    }
    numbers_.resize(steps_.size(), number++);
  }
  const std::vector<Modules::Loaded> loaded = modules_.load(sources);
  auto module = loaded.begin();
  for (auto& step : steps_) {
    if (auto* launch = std::get_if<Launch>(&step)) launch->module = *module++;
  }
  for (auto& step : steps_) {
    auto* product = std::get_if<ProductStep>(&step);
    if (product == nullptr || is_empty(product->step)) continue;
    product->product = matmuls_.product(product->step, product->alignment, lane_);
    if (product->product == nullptr) lower(*product);
  }
  count_work();
}

PreparedSteps::Launch PreparedSteps::lay_out(const plan::KernelStep& step) {
  const kernel::Program& program = *step.program;
  Launch launch;
  launch.threads = static_cast<unsigned>(kernel::block_threads(program));
  launch.horizontal = program.schedule.horizontal;
  launch.has_args = !program.args.empty();
  launch.has_error = kernel::analyze(program).has_bounded;
  checks_indices_ |= launch.has_error;
  if (!launch.horizontal) {
    const plan::Binding& binding = step.segments.front();
    launch.blocks = grid_size(kernel::block_count(program, binding.ints), step.label);
    if (binding.buffers.size() > kMaxBuffers) {
      throw BackendError(fmt::format("{}: {} buffers are more than one launch takes", step.label,
                                     binding.buffers.size()));
    }
    launch.buffers = binding.buffers;
    launch.first_arg = binding.first_arg;
    launch.ints = pack(binding.ints, program.schedule.index64, step.label);
    return launch;
  }
  std::int64_t blocks = 0;
  for (const plan::Binding& binding : step.segments) {
    const std::int64_t own = kernel::block_count(program, binding.ints);
    if (own == 0) continue;
    launch.segments.push_back({blocks, binding});
    blocks += own;
  }
  launch.blocks = grid_size(blocks, step.label);
  launch.table = table_words_;
  table_words_ += launch.segments.size() * static_cast<std::size_t>(kernel::row_words(program));
  return launch;
}

PreparedSteps::Launch PreparedSteps::lay_out(const SortLaunch& part, const std::string& label) {
  Launch launch;
  launch.threads = static_cast<unsigned>(part.threads);
  launch.blocks = grid_size(part.blocks, label);
  launch.buffers = part.buffers;
  launch.ints = pack(part.ints, true, label);
  return launch;
}

void PreparedSteps::lower(ProductStep& product) {
  if (product.generic.module != nullptr) return;
  const plan::KernelStep step = lower_matmul(product.step);
  product.generic = lay_out(step);
  product.generic.module =
      modules_.load({kernel::emit(*step.program, kernel::Dialect::Cuda)}).front();
}

void PreparedSteps::count_work() {
  launches_ = library_calls_ = 0;
  for (const auto& step : steps_) {
    if (const auto* launch = std::get_if<Launch>(&step)) {
      launches_ += launch->blocks > 0 ? 1 : 0;
    } else if (!std::holds_alternative<ProductStep>(step)) {
      ++library_calls_;
    } else {
      const auto& product = std::get<ProductStep>(step);
      if (product.product != nullptr) {
        ++library_calls_;
      } else {
        launches_ += product.generic.blocks > 0 ? 1 : 0;
      }
    }
  }
}

void PreparedSteps::bind(const Bound& bound) {
  bool changed = false;
  for (auto& step : steps_) {
    auto* product = std::get_if<ProductStep>(&step);
    if (product == nullptr || is_empty(product->step)) continue;
    const plan::MatmulStep& matmul = product->step;
    const Alignment alignment =
        alignment_of(operand(bound[matmul.a], matmul.offset_a, matmul.dtype),
                     operand(bound[matmul.b], matmul.offset_b, matmul.dtype),
                     bound[matmul.c] | (matmul.uses_other() ? bound[matmul.other] : 0));
    if (alignment == product->alignment) continue;
    product->product = matmuls_.product(matmul, alignment, lane_);
    product->alignment = alignment;
    if (product->product == nullptr) lower(*product);
    changed = true;
  }
  if (changed) count_work();
}

void PreparedSteps::fill_tables(const Bound& bound, std::vector<std::uint64_t>& words) const {
  words.clear();
  words.reserve(table_words_);
  for (const auto& step : steps_) {
    const auto* launch = std::get_if<Launch>(&step);
    if (launch == nullptr) continue;
    for (const Launch::Segment& segment : launch->segments) {
      words.push_back(static_cast<std::uint64_t>(segment.first_block));
      for (const std::int64_t value : segment.binding.ints) {
        words.push_back(static_cast<std::uint64_t>(value));
      }
      for (const plan::BufferRef& buffer : segment.binding.buffers) words.push_back(bound[buffer]);
      words.push_back(segment.binding.first_arg);
    }
  }
}

void PreparedSteps::issue(std::size_t step, const Bound& bound, const LaunchPlace& place) const {
  if (const auto* launch = std::get_if<Launch>(&steps_[step])) {
    issue_launch(*launch, bound, place);
    return;
  }
  if (const auto* call = std::get_if<ConvCall>(&steps_[step])) {
    const plan::ConvStep& conv = call->step;
    cudnn_.run(*call->convolution,
               {.a = bound[conv.a],
                .b = bound[conv.b],
                .c = bound[conv.c],
                .bias = conv.has_bias ? bound[conv.bias] : 0,
                .workspace = bound[conv.scratch]},
               place.stream);
    return;
  }
  if (const auto* call = std::get_if<AttentionCallStep>(&steps_[step])) {
    std::vector<CUdeviceptr> addresses;
    for (std::size_t i = 0; i < call->step.reads.size(); ++i) {
      const auto& [buffer, strides, offset] = call->step.reads[i];
      const bool logarithms = i == 5;
      addresses.push_back(
          operand(bound[buffer], offset, logarithms ? DType::f32 : call->step.dtype));
    }
    for (const plan::BufferRef& buffer : call->step.writes) addresses.push_back(bound[buffer]);
    cudnn_.run(*call->call, addresses, bound[call->step.scratch], place.stream);
    return;
  }
  const auto& product = std::get<ProductStep>(steps_[step]);
  if (product.product == nullptr) {
    issue_launch(product.generic, bound, place);
    return;
  }
  const plan::MatmulStep& matmul = product.step;
  matmuls_.run(*product.product,
               {.a = operand(bound[matmul.a], matmul.offset_a, matmul.dtype),
                .b = operand(bound[matmul.b], matmul.offset_b, matmul.dtype),
                .c = bound[matmul.c],
                .bias = matmul.has_bias ? bound[matmul.bias] : 0,
                .other = matmul.uses_other() ? bound[matmul.other] : 0},
               place.stream, lane_);
}

void PreparedSteps::issue_launch(const Launch& launch, const Bound& bound,
                                 const LaunchPlace& place) const {
  if (launch.blocks == 0) return;
  if (launch.horizontal) {
    issue_horizontal(launch, place);
    return;
  }
  std::array<CUdeviceptr, kMaxBuffers + 2> addresses;
  std::array<void*, kMaxBuffers + 3> parameters;
  std::size_t count = 0;
  const auto add = [&](CUdeviceptr address) {
    addresses[count] = address;
    parameters[count] = &addresses[count];
    ++count;
  };
  for (const plan::BufferRef& buffer : launch.buffers) add(bound[buffer]);
  if (launch.has_args) add(place.args + launch.first_arg * sizeof(std::uint64_t));
  if (launch.has_error) add(place.error);
  // The driver only reads parameters.
  if (!launch.ints.empty()) parameters[count] = const_cast<std::byte*>(launch.ints.data());
  context_.check(context_.driver().cuLaunchKernel(launch.module->function(), launch.blocks, 1, 1,
                                                  launch.threads, 1, 1, 0, place.stream,
                                                  parameters.data(), nullptr),
                 "launching a kernel");
}

void PreparedSteps::issue_horizontal(const Launch& launch, const LaunchPlace& place) const {
  CUdeviceptr table = place.tables + launch.table * sizeof(std::uint64_t);
  int segments = static_cast<int>(launch.segments.size());
  CUdeviceptr args = place.args, error = place.error;
  std::array<void*, 4> parameters{&table, &segments};
  std::size_t count = 2;
  if (launch.has_args) parameters[count++] = &args;
  if (launch.has_error) parameters[count++] = &error;
  context_.check(context_.driver().cuLaunchKernel(launch.module->function(), launch.blocks, 1, 1,
                                                  launch.threads, 1, 1, 0, place.stream,
                                                  parameters.data(), nullptr),
                 "launching a kernel");
}

}  // namespace volta::cuda
