// Preparing and issuing the steps of a plan.
#include "backend/cuda/steps.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/common/matmul_program.h"
#include "backend/common/sort_launches.h"
#include "volta/error.h"

namespace volta::cuda {
namespace {

// Far more than the planner uses in one kernel.
constexpr std::size_t kMaxBuffers = 128;
// The shared memory that any kernel may have; more must be asked for.
constexpr unsigned kSharedBytes = 48 << 10;

unsigned grid_size(std::int64_t blocks, const std::string& label) {
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    throw BackendError(fmt::format("{}: {} blocks are more than one launch takes", label, blocks));
  }
  return static_cast<unsigned>(blocks);
}

// Packs the integers as the kernel's parameter struct: all int, or all long long.
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

bool multiplies(const std::vector<plan::Step>& steps) {
  return std::ranges::any_of(steps, [](const plan::Step& step) {
    const auto* loop = std::get_if<plan::LoopStep>(&step);
    if (loop == nullptr) return std::holds_alternative<plan::MatmulStep>(step);
    return std::ranges::any_of(loop->parts,
                               [](const plan::LoopPart& part) { return multiplies(part.steps); });
  });
}

}  // namespace

PreparedSteps::PreparedSteps(const Context& context, Modules& modules, MatmulLibrary& matmuls,
                             CudnnLibrary& cudnn, const plan::PlanSteps& steps)
    : context_(context),
      modules_(modules),
      matmuls_(matmuls),
      cudnn_(cudnn),
      stream_number_(steps.stream),
      last_writers_(steps.output_bytes.size()) {
  std::vector<Unloaded> unloaded;
  if (multiplies(steps.steps)) matmuls_.open_stream(stream_number_, steps.low_memory);
  std::uint32_t number = 0;
  for (const plan::Step& step : steps.steps) {
    if (const auto* loop = std::get_if<plan::LoopStep>(&step)) {
      Turn& turn = order_.emplace_back();
      for (const plan::LoopPart& part : loop->parts) {
        const Iterations iterations{part.first, part.count};
        const std::size_t begin = steps_.size();
        for (const plan::Step& one : part.steps) add(one, iterations, unloaded);
        turn.parts.push_back({iterations, begin, steps_.size()});
      }
    } else {
      const std::size_t begin = steps_.size();
      add(step, {}, unloaded);
      for (std::size_t one = begin; one < steps_.size(); ++one)
        order_.push_back({{{{}, one, one + 1}}});
    }
    // A sort of nothing is no step at all.
    if (order_.size() > numbers_.size()) {
      for (const plan::WrittenBuffer& written : plan::written_by(step)) {
        if (written.buffer.kind == plan::BufferRef::Kind::Output)
          last_writers_[written.buffer.index] = order_.size() - 1;
      }
    }
    numbers_.resize(order_.size(), number++);
  }
  load(std::move(unloaded));
  for (auto& step : steps_) {
    auto* product = std::get_if<ProductStep>(&step);
    if (product == nullptr || is_empty(product->step)) continue;
    product->product = matmuls_.product(product->step, product->alignment, stream_number_);
    if (product->product == nullptr) lower(*product);
  }
  count_work();
}

void PreparedSteps::load(std::vector<Unloaded> unloaded) {
  std::vector<kernel::KernelSource> sources;
  sources.reserve(unloaded.size());
  for (Unloaded& kernel : unloaded) sources.push_back(std::move(kernel.source));
  const std::vector<Modules::Loaded> loaded = modules_.load(sources);
  for (std::size_t n = 0; n < unloaded.size(); ++n) {
    auto& launch = std::get<Launch>(steps_[unloaded[n].step]);
    launch.module = loaded[n];
    if (launch.shared_bytes > kSharedBytes) {
      context_.check(context_.driver().cuFuncSetAttribute(
                         loaded[n]->function(), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                         static_cast<int>(launch.shared_bytes)),
                     "asking for shared memory");
    }
    if (unloaded[n].program != nullptr) modules_.note(unloaded[n].program, loaded[n]);
  }
}

void PreparedSteps::add(const plan::Step& step, Iterations iterations,
                        std::vector<Unloaded>& unloaded) {
  if (const auto* kernel_step = std::get_if<plan::KernelStep>(&step)) {
    Launch launch = lay_out(*kernel_step, iterations);
    launch.module = modules_.find(kernel_step->program);
    if (launch.module == nullptr) {
      unloaded.push_back({steps_.size(), kernel::emit(*kernel_step->program, kernel::Dialect::Cuda),
                          kernel_step->program});
    }
    steps_.emplace_back(std::move(launch));
  } else if (const auto* matmul = std::get_if<plan::MatmulStep>(&step)) {
    steps_.emplace_back(ProductStep{*matmul, nullptr, {}, {}});
  } else if (const auto* sort = std::get_if<plan::SortStep>(&step)) {
    for (SortLaunch& part : sort_launches(*sort, kernel::Dialect::Cuda)) {
      unloaded.push_back({steps_.size(), std::move(part.source), nullptr});
      steps_.emplace_back(lay_out(part, sort->label));
    }
  } else if (const auto* attention = std::get_if<plan::AttentionStep>(&step);
             attention != nullptr && attention->by == plan::AttentionStep::By::Kernels) {
    for (const AttentionLaunch& part :
         attention_launches(*attention, context_.compute_capability())) {
      unloaded.push_back({steps_.size(), part.variant.source(), nullptr});
      steps_.emplace_back(lay_out(part, attention->label));
    }
  } else {
    steps_.emplace_back(CudnnStep{step, cudnn_.checked_call(step)});
  }
  iterations_.resize(steps_.size(), iterations);
}

PreparedSteps::Launch PreparedSteps::lay_out(const plan::KernelStep& step, Iterations iterations) {
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
  launch.table_words =
      launch.segments.size() * static_cast<std::size_t>(kernel::row_words(program));
  launch.iterations = iterations;
  table_words_ += launch.table_words * static_cast<std::size_t>(iterations.count);
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

PreparedSteps::Launch PreparedSteps::lay_out(const AttentionLaunch& part,
                                             const std::string& label) {
  Launch launch;
  launch.threads = static_cast<unsigned>(part.variant.tile.warps * 32);
  launch.shared_bytes = part.variant.shared_bytes();
  launch.blocks = grid_size(part.blocks, label);
  launch.buffers = part.buffers;
  launch.ints = pack(part.ints, true, label);
  return launch;
}

void PreparedSteps::lower(ProductStep& product) {
  if (product.generic.module != nullptr) return;
  const plan::KernelStep step = lower_matmul(product.step);
  product.generic = lay_out(step, {});
  product.generic.module =
      modules_.load({kernel::emit(*step.program, kernel::Dialect::Cuda)}).front();
}

void PreparedSteps::count_work() {
  launches_ = library_calls_ = 0;
  for (std::size_t n = 0; n < steps_.size(); ++n) {
    const auto times = static_cast<std::uint64_t>(iterations_[n].count);
    const auto* launch = std::get_if<Launch>(&steps_[n]);
    const auto* product = std::get_if<ProductStep>(&steps_[n]);
    if (product != nullptr && product->product == nullptr) launch = &product->generic;
    if (launch == nullptr) {
      library_calls_ += times;
    } else if (launch->blocks > 0) {
      launches_ += times;
    }
  }
}

void PreparedSteps::bind(const Bound& bound) {
  bool changed = false;
  for (auto& step : steps_) {
    auto* product = std::get_if<ProductStep>(&step);
    if (product == nullptr || is_empty(product->step)) continue;
    const plan::MatmulStep& matmul = product->step;
    const auto operand = [&](const plan::BufferRef& buffer, std::int64_t offset) {
      return least_aligned(element(bound[buffer], offset, matmul.dtype), buffer);
    };
    const Alignment alignment =
        alignment_of(operand(matmul.a, matmul.offset_a), operand(matmul.b, matmul.offset_b),
                     operand(matmul.c, 0) | (matmul.uses_other() ? operand(matmul.other, 0) : 0));
    if (alignment == product->alignment) continue;
    product->product = matmuls_.product(matmul, alignment, stream_number_);
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
    Bound now = bound;
    for (std::int64_t n = 0; n < launch->iterations.count; ++n) {
      now.iteration = launch->iterations.first + n;
      for (const Launch::Segment& segment : launch->segments) {
        words.push_back(static_cast<std::uint64_t>(segment.first_block));
        for (const std::int64_t value : segment.binding.ints) {
          words.push_back(static_cast<std::uint64_t>(value));
        }
        for (const plan::BufferRef& buffer : segment.binding.buffers) words.push_back(now[buffer]);
        words.push_back(segment.binding.first_arg);
      }
    }
  }
}

void PreparedSteps::issue(std::size_t step, const Bound& bound, const LaunchPlace& place) const {
  Bound now = bound;
  for (const Turn::Part& part : order_[step].parts) {
    for (std::int64_t n = 0; n < part.iterations.count; ++n) {
      now.iteration = part.iterations.first + n;
      for (std::size_t one = part.begin; one < part.end; ++one) issue_one(one, now, place);
    }
  }
}

void PreparedSteps::issue_one(std::size_t step, const Bound& bound,
                              const LaunchPlace& place) const {
  if (const auto* launch = std::get_if<Launch>(&steps_[step])) {
    issue_launch(*launch, bound, place);
    return;
  }
  if (const auto* call = std::get_if<CudnnStep>(&steps_[step])) {
    cudnn_.run(*call->call, call->step, bound, place.stream);
    return;
  }
  const auto& product = std::get<ProductStep>(steps_[step]);
  if (product.product == nullptr) {
    issue_launch(product.generic, bound, place);
    return;
  }
  const plan::MatmulStep& matmul = product.step;
  matmuls_.run(*product.product,
               {.a = element(bound[matmul.a], matmul.offset_a, matmul.dtype),
                .b = element(bound[matmul.b], matmul.offset_b, matmul.dtype),
                .c = bound[matmul.c],
                .bias = matmul.has_bias ? bound[matmul.bias] : 0,
                .other = matmul.uses_other() ? bound[matmul.other] : 0},
               place.stream, stream_number_);
}

void PreparedSteps::issue_launch(const Launch& launch, const Bound& bound,
                                 const LaunchPlace& place) const {
  if (launch.blocks == 0) return;
  if (launch.horizontal) {
    issue_horizontal(launch, bound.iteration, place);
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
  // The driver only reads the parameters, so the cast is safe.
  if (!launch.ints.empty()) parameters[count] = const_cast<std::byte*>(launch.ints.data());
  context_.check(context_.driver().cuLaunchKernel(launch.module->function(), launch.blocks, 1, 1,
                                                  launch.threads, 1, 1, launch.shared_bytes,
                                                  place.stream, parameters.data(), nullptr),
                 "launching a kernel");
}

void PreparedSteps::issue_horizontal(const Launch& launch, std::int64_t iteration,
                                     const LaunchPlace& place) const {
  const auto turn = static_cast<std::size_t>(iteration - launch.iterations.first);
  CUdeviceptr table =
      place.tables + (launch.table + turn * launch.table_words) * sizeof(std::uint64_t);
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
