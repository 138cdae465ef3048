// Convolutions and attention by cuDNN. A convolution's candidates come from cuDNN's heuristics,
// only deterministic ones; the fastest of the first few is found by timing and remembered. Where
// sizes vary, nothing is timed: a convolution uses the engine of the first one that differs from it
// only in size.
#include "backend/cuda/cudnn.h"

#ifdef VOLTA_HAS_CUDNN
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "backend/timed_choice.h"
#include "core/log_once.h"
#include "platform/env.h"
#include "platform/library.h"
#include "volta/error.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}

namespace volta::cuda {

namespace fe = cudnn_frontend;
using plan::AttentionStep;
using plan::ConvStep;

class CudnnCall {
 public:
  fe::graph::Graph graph;
  std::optional<std::int64_t> plan;  // plan of the graph; empty for the one that was built
  std::uint64_t workspace = 0;
};

// An engine of cuDNN with its settings, which may serve steps of several sizes.
struct CudnnEngine {
  std::int64_t number = 0;
  std::unordered_map<fe::KnobType_t, std::int64_t> knobs;
};

namespace {

// The largest workspace that a plan may use.
constexpr std::int64_t kMostWorkspace = std::int64_t{256} << 20;
// The largest workspace if there was no memory for timing.
constexpr std::int64_t kLittleWorkspace = std::int64_t{4} << 20;
// The number of candidates that are built and timed, and the seconds they may take together.
constexpr std::size_t kCandidates = 6;
constexpr double kBudget = 0.1;

enum Uid : std::int64_t { kA = 1, kB, kC, kBias };

fe::DataType_t type_of(DType dtype) {
  return dtype == DType::f16    ? fe::DataType_t::HALF
         : dtype == DType::bf16 ? fe::DataType_t::BFLOAT16
                                : fe::DataType_t::FLOAT;
}

using TensorHandle = std::shared_ptr<fe::graph::Tensor_attributes>;
using Dims = std::vector<std::int64_t>;

// The dimensions are in the order channels second; the strides describe channels-last memory.
Dims channels_last_strides(const Dims& d) { return {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]}; }
fe::graph::Tensor_attributes operand(Uid uid, const Dims& dims) {
  return fe::graph::Tensor_attributes().set_uid(uid).set_dim(dims).set_stride(
      channels_last_strides(dims));
}

template <class Attributes>
Attributes convolution_attributes(const ConvStep& s) {
  return Attributes()
      .set_padding({s.padding[0], s.padding[1]})
      .set_stride({s.stride[0], s.stride[1]})
      .set_dilation({s.dilation[0], s.dilation[1]});
}

void describe(const ConvStep& s, fe::graph::Graph& graph) {
  const Dims input{s.n, s.c_in, s.in[0], s.in[1]},
      weight{s.c_out, s.group_in(), s.kernel[0], s.kernel[1]},
      result{s.n, s.c_out, s.out[0], s.out[1]};
  graph.set_io_data_type(type_of(s.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto finish = [&](const TensorHandle& c, const Dims& dims) {
    c->set_output(true).set_uid(kC).set_dim(dims).set_stride(channels_last_strides(dims));
  };
  switch (s.kind) {
    case ConvStep::Kind::Forward: {
      TensorHandle value =
          graph.conv_fprop(graph.tensor(operand(kA, input)), graph.tensor(operand(kB, weight)),
                           convolution_attributes<fe::graph::Conv_fprop_attributes>(s));
      using Pointwise = fe::graph::Pointwise_attributes;
      if (s.has_bias) {
        value = graph.pointwise(value, graph.tensor(operand(kBias, {1, s.c_out, 1, 1})),
                                Pointwise().set_mode(fe::PointwiseMode_t::ADD));
      }
      if (s.activation == plan::Activation::Relu)
        value = graph.pointwise(value, Pointwise().set_mode(fe::PointwiseMode_t::RELU_FWD));
      return finish(value, result);
    }
    case ConvStep::Kind::InputGrad:
      return finish(
          graph.conv_dgrad(graph.tensor(operand(kA, result)), graph.tensor(operand(kB, weight)),
                           convolution_attributes<fe::graph::Conv_dgrad_attributes>(s)),
          input);
    case ConvStep::Kind::WeightGrad:
      return finish(
          graph.conv_wgrad(graph.tensor(operand(kB, result)), graph.tensor(operand(kA, input)),
                           convolution_attributes<fe::graph::Conv_wgrad_attributes>(s)),
          weight);
  }
}

// Properties of engines that are excluded: results that vary from run to run, or less precision
// than the step asks for.
std::vector<fe::NumericalNote_t> unwanted(const ConvStep& s) {
  std::vector<fe::NumericalNote_t> notes{fe::NumericalNote_t::NONDETERMINISTIC,
                                         fe::NumericalNote_t::DOWN_CONVERT_INPUTS,
                                         fe::NumericalNote_t::REDUCED_PRECISION_REDUCTION};
  if (s.dtype == DType::f32) {
    for (const auto note : {fe::NumericalNote_t::WINOGRAD, fe::NumericalNote_t::WINOGRAD_TILE_4x4,
                            fe::NumericalNote_t::WINOGRAD_TILE_6x6,
                            fe::NumericalNote_t::WINOGRAD_TILE_13x13, fe::NumericalNote_t::FFT}) {
      notes.push_back(note);
    }
    if (!s.tf32) notes.push_back(fe::NumericalNote_t::TENSOR_CORE);
  }
  return notes;
}

void* pointer(CUdeviceptr address) { return std::bit_cast<void*>(address); }

// The sizes of the operands in the order of Uid.
std::array<std::int64_t, 4> element_counts(const ConvStep& s) {
  const auto [a, b, c] = s.operand_sizes();
  return {a, b, c, s.has_bias ? s.c_out : 1};
}

// ---- What a step asks for, by the kind of step.

bool may_take(const ConvStep& s) {
  return (s.dtype == DType::f32 || size_of(s.dtype) == 2) &&
         (s.activation == plan::Activation::None || s.activation == plan::Activation::Relu);
}
bool may_take(const AttentionStep& s) {
  return s.by == AttentionStep::By::Library && !s.masked && size_of(s.dtype) == 2;
}

using Key = std::vector<std::int64_t>;
Key key_of(const ConvStep& s) {
  const ConvStep::Numbers numbers = s.numbers();
  return {numbers.begin(), numbers.end()};
}
Key key_of(const AttentionStep& s) {
  const AttentionStep::Numbers numbers = s.numbers();
  Key key(numbers.begin(), numbers.end());
  for (const auto& operand : s.reads)
    key.insert(key.end(), operand.strides.begin(), operand.strides.end());
  return key;
}

// The addresses of the graph's tensors, by their uids from 1 on.
std::vector<CUdeviceptr> addresses_of(const ConvStep& s, const Bound& bound) {
  std::vector<CUdeviceptr> addresses{bound[s.a], bound[s.b], bound[s.c]};
  if (s.has_bias) addresses.push_back(bound[s.bias]);
  return addresses;
}
std::vector<CUdeviceptr> addresses_of(const AttentionStep& s, const Bound& bound) {
  std::vector<CUdeviceptr> addresses;
  for (std::size_t i = 0; i < s.reads.size(); ++i) {
    const auto& [buffer, strides, offset] = s.reads[i];
    const bool logarithms = i == 5;
    addresses.push_back(element(bound[buffer], offset, logarithms ? DType::f32 : s.dtype));
  }
  for (const plan::BufferRef& buffer : s.writes) addresses.push_back(bound[buffer]);
  return addresses;
}

// Steps that cuDNN has graphs for.
template <class S>
constexpr bool kHasGraph = requires(const S& s) { may_take(s); };

// Runs candidates on memory of their own.
class Trial {
 public:
  Trial(const Context& context, cudnnHandle_t handle, const ConvStep& step)
      : context_(context), handle_(handle) {
    const auto counts = element_counts(step);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::size_t bytes = static_cast<std::size_t>(counts[i]) * size_of(step.dtype);
      operands_[i] = DeviceMemory::try_allocate(context, bytes);
      if (!operands_[i]) {
        was_short_ = true;
        return;
      }
      fill_with_numbers(context, operands_[i].address(), bytes);
    }
  }
  // Whether some candidate was not tried for lack of memory.
  bool was_short() const { return was_short_; }

  // The seconds of one run; nothing if there is no memory or the run fails.
  std::optional<double> seconds(const fe::graph::Graph& graph, std::int64_t plan) {
    std::int64_t bytes = 0;
    if (!operands_.back() || graph.get_workspace_size_plan_at_index(plan, bytes).is_bad())
      return std::nullopt;
    DeviceMemory workspace;
    if (bytes > 0) {
      workspace = DeviceMemory::try_allocate(context_, static_cast<std::size_t>(bytes));
      if (!workspace) {
        was_short_ = true;
        return std::nullopt;
      }
    }
    std::unordered_map<std::int64_t, void*> pack{{kA, pointer(operands_[0].address())},
                                                 {kB, pointer(operands_[1].address())},
                                                 {kC, pointer(operands_[2].address())},
                                                 {kBias, pointer(operands_[3].address())}};
    return seconds_of_a_run(context_, [&] {
      return graph.execute_plan_at_index(handle_, pack, pointer(workspace.address()), plan)
          .is_good();
    });
  }

 private:
  const Context& context_;
  cudnnHandle_t handle_;
  std::array<DeviceMemory, 4> operands_;
  bool was_short_ = false;
};

std::string text_of(const ConvStep& s) {
  return fmt::format(
      "convolution {} {} tf32 {} n {} c {} o {} groups {} {} {} {} {} {} {} bias {} activation {}",
      static_cast<int>(s.kind), name_of(s.dtype), s.tf32, s.n, s.c_in, s.c_out, s.groups, s.in,
      s.out, s.kernel, s.stride, s.padding, s.dilation, s.has_bias, static_cast<int>(s.activation));
}

// What remains of a key when the sizes that may vary are left out.
Key class_of(const ConvStep& s) {
  ConvStep::Numbers numbers = s.numbers();
  for (const std::size_t number : ConvStep::kOpenNumbers) numbers[number] = 0;
  return {numbers.begin(), numbers.end()};
}

// Finishes a call with a plan that was built. Returns null if that fails.
std::shared_ptr<CudnnCall> with_plan(std::shared_ptr<CudnnCall> call, std::int64_t plan) {
  std::int64_t bytes = 0;
  if (call->graph.get_workspace_size_plan_at_index(plan, bytes).is_bad()) return nullptr;
  call->plan = plan;
  call->workspace = static_cast<std::uint64_t>(bytes);
  return call;
}

// The graph of a step for a known engine, without asking the heuristics, which take most of the
// time. Returns null if the engine does not take the step.
std::shared_ptr<CudnnCall> call_by(const CudnnEngine& engine, cudnnHandle_t handle,
                                   const ConvStep& step) {
  auto call = std::make_shared<CudnnCall>();
  fe::graph::Graph& graph = call->graph;
  describe(step, graph);
  if (graph.validate().is_bad() || graph.build_operation_graph(handle).is_bad() ||
      graph.create_execution_plan(engine.number, engine.knobs).is_bad()) {
    return nullptr;
  }
  graph.deselect_workspace_greater_than(kMostWorkspace);
  if (graph.check_support(handle).is_bad() || graph.build_plan_at_index(handle, 0).is_bad())
    return nullptr;
  return with_plan(std::move(call), 0);
}

// The plans of a step's graph, in the order of the heuristics.
class Candidates {
 public:
  Candidates(cudnnHandle_t handle, fe::graph::Graph& graph) : handle_(handle), graph_(graph) {
    for (std::int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
      std::string name;
      if (graph.get_plan_name_at_index(i, name).is_bad()) name = fmt::format("plan {}", i);
      names_.push_back(std::move(name));
    }
  }
  const std::vector<std::string>& names() const { return names_; }
  bool build(std::size_t candidate) const {
    return graph_.build_plan_at_index(handle_, static_cast<std::int64_t>(candidate)).is_good();
  }
  // The first one that can be built and works within so many bytes.
  std::optional<std::size_t> first_within(std::int64_t most) const {
    for (std::size_t candidate = 0; candidate < names_.size(); ++candidate) {
      std::int64_t bytes = 0;
      if (build(candidate) &&
          graph_.get_workspace_size_plan_at_index(static_cast<std::int64_t>(candidate), bytes)
              .is_good() &&
          bytes <= most) {
        return candidate;
      }
    }
    return std::nullopt;
  }
  // The fastest of the first few; nothing if none could be timed. `short_of_memory` is set if some
  // could not for lack of memory.
  std::optional<std::size_t> fastest(const Context& context, const ConvStep& step,
                                     bool& short_of_memory) const {
    fe::detail::set_stream(handle_, reinterpret_cast<cudaStream_t>(context.stream()));
    Trial trial(context, handle_, step);
    std::size_t built = 0;
    const auto seconds = [&](std::size_t candidate) -> std::optional<double> {
      if (built >= kCandidates || !build(candidate)) return std::nullopt;
      ++built;
      return trial.seconds(graph_, static_cast<std::int64_t>(candidate));
    };
    const std::optional<std::size_t> chosen = fastest_candidate(names_.size(), seconds, kBudget);
    short_of_memory = trial.was_short();
    return chosen;
  }

 private:
  cudnnHandle_t handle_;
  fe::graph::Graph& graph_;
  std::vector<std::string> names_;
};

// Builds a graph for the step. Returns null if the library does not support it; `short_of_memory`
// is set if it might succeed when more memory is free.
std::shared_ptr<const CudnnCall> make_call(const Context& context, cudnnHandle_t handle,
                                           const ConvStep& step, CudnnEngines& engines,
                                           bool& short_of_memory) {
  // The engine of the very step, so that its bits stay the same when it is planned again; else, if
  // sizes vary, that of its class.
  const Key of_step = key_of(step), of_class = class_of(step);
  const auto* known = engines.find(of_step);
  if (known == nullptr && !step.may_time) known = engines.find(of_class);
  if (known != nullptr) {
    if (auto call = call_by(**known, handle, step)) return call;
  }
  auto convolution = std::make_shared<CudnnCall>();
  fe::graph::Graph& graph = convolution->graph;
  describe(step, graph);
  if (graph.validate().is_bad() || graph.build_operation_graph(handle).is_bad() ||
      graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}).is_bad()) {
    return nullptr;
  }
  graph.deselect_numeric_notes(unwanted(step));
  graph.deselect_workspace_greater_than(kMostWorkspace);
  if (graph.check_support(handle).is_bad()) return nullptr;

  const Candidates candidates(handle, graph);
  const ChoiceKey choice_key{
      fmt::format("{} sm{} cuDNN {}", context.device_name(), context.compute_capability(),
                  fe::detail::get_backend_version()),
      text_of(step), context.device_name(), fmt::format("cuDNN: {}", step.label)};
  std::optional<std::size_t> chosen = remembered_candidate(choice_key, candidates.names());
  if (chosen && !candidates.build(*chosen)) chosen.reset();
  if (!chosen && step.may_time) {
    chosen = candidates.fastest(context, step, short_of_memory);
    if (chosen && !short_of_memory) remember_candidate(choice_key, candidates.names()[*chosen]);
    if (!chosen && short_of_memory) chosen = candidates.first_within(kLittleWorkspace);
  } else if (!chosen) {
    chosen = candidates.first_within(kMostWorkspace);
  }
  if (!chosen) return nullptr;
  const auto plan = static_cast<std::int64_t>(*chosen);
  auto engine = std::make_shared<CudnnEngine>();
  if (graph.get_engine_and_knobs_at_index(plan, engine->number, engine->knobs).is_good() &&
      !short_of_memory) {
    engines.put(of_step, engine);
    if (engines.find(of_class) == nullptr) engines.put(of_class, std::move(engine));
  }
  return with_plan(std::move(convolution), plan);
}

std::shared_ptr<const CudnnCall> make_call(const Context&, cudnnHandle_t handle,
                                           const AttentionStep& s, CudnnEngines&, bool&) {
  const auto call = std::make_shared<CudnnCall>();
  fe::graph::Graph& graph = call->graph;
  graph.set_io_data_type(type_of(s.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  std::int64_t uid = 0;
  const auto dims = [&](std::int64_t heads, std::int64_t length) {
    return Dims{s.batch, heads, length, s.size};
  };
  const Dims queries = dims(s.heads, s.queries), keys = dims(s.kv_heads, s.keys);
  const auto read = [&](const Dims& shape) {
    Dims strides{shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
    if (!s.reads.empty()) {
      const auto& given = s.reads[static_cast<std::size_t>(uid)].strides;
      strides.assign(given.begin(), given.end());
    }
    return graph.tensor(
        fe::graph::Tensor_attributes().set_uid(++uid).set_dim(shape).set_stride(strides));
  };
  unsigned written = 0;
  const auto write = [&](const TensorHandle& tensor, const Dims& d) {
    const bool heads_first = (s.heads_first >> written++ & 1) != 0;
    tensor->set_output(true).set_uid(++uid).set_dim(d).set_stride(
        heads_first ? Dims{d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}
                    : Dims{d[1] * d[2] * d[3], d[3], d[1] * d[3], 1});
  };
  const Dims rows{s.batch, s.heads, s.queries, 1},
      row_strides{s.heads * s.queries, s.queries, 1, 1};
  const auto q = read(queries), k = read(keys), v = read(keys);
  const float scale = static_cast<float>(s.scale);
  if (s.gradient) {
    const auto o = read(queries), g = read(queries);
    const auto logs = graph.tensor(fe::graph::Tensor_attributes()
                                       .set_uid(++uid)
                                       .set_dim(rows)
                                       .set_stride(row_strides)
                                       .set_data_type(fe::DataType_t::FLOAT));
    const auto [dq, dk, dv] =
        graph.sdpa_backward(q, k, v, o, g, logs,
                            fe::graph::SDPA_backward_attributes()
                                .set_name("attention")
                                .set_attn_scale(scale)
                                .set_causal_mask(s.causal)
                                .set_deterministic_algorithm(s.deterministic));
    write(dq, queries);
    write(dk, keys);
    write(dv, keys);
  } else {
    const auto [o, logs] = graph.sdpa(q, k, v,
                                      fe::graph::SDPA_attributes()
                                          .set_name("attention")
                                          .set_generate_stats(true)
                                          .set_attn_scale(scale)
                                          .set_causal_mask(s.causal));
    write(o, queries);
    logs->set_output(true)
        .set_uid(++uid)
        .set_dim(rows)
        .set_stride(row_strides)
        .set_data_type(fe::DataType_t::FLOAT);
  }
  // The gradient accumulates in f32; the deterministic version needs several such buffers.
  const std::int64_t most = kMostWorkspace + 4 * static_cast<std::int64_t>(sizeof(float)) *
                                                 s.batch * s.heads * std::max(s.queries, s.keys) *
                                                 s.size;
  std::int64_t bytes = 0;
  if (graph.validate().is_bad() || graph.build_operation_graph(handle).is_bad() ||
      graph.create_execution_plans({fe::HeurMode_t::A}).is_bad()) {
    return nullptr;
  }
  graph.deselect_workspace_greater_than(most);
  if (graph.check_support(handle).is_bad() ||
      graph.build_plans(handle, fe::BuildPlanPolicy_t::HEURISTICS_CHOICE).is_bad() ||
      graph.get_workspace_size(bytes).is_bad()) {
    return nullptr;
  }
  call->workspace = static_cast<std::uint64_t>(bytes);
  return call;
}

bool cudnn_is_on() { return platform::environment("VOLTA_CUDNN") != "off"; }

}  // namespace

LibraryInfo cudnn_library() {
  LibraryInfo info{.name = "cuDNN", .version = {}};
  void* library = open_cudnn();
  const auto version = library == nullptr ? nullptr
                                          : platform::library_function<std::size_t (*)()>(
                                                library, "cudnnGetVersion");
  if (version == nullptr) {
    info.note = "libcudnn.so.9 was not found";
    return info;
  }
  const std::size_t number = version();  // 91002 is 9.10.2
  info.version = fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  if (!cudnn_is_on()) info.note = "not used: VOLTA_CUDNN=off";
  return info;
}

bool CudnnLibrary::start() {
  if (handle_ != nullptr) return true;
  if (missing_) return false;
  missing_ = true;
  if (!cudnn_is_on()) return false;
  fe::cudnn_dlhandle = open_cudnn();
  if (fe::cudnn_dlhandle == nullptr) {
    log_once("cuda.no_cudnn", LogLevel::warning,
             "cuDNN (libcudnn.so.9) was not found; convolutions on CUDA run as generated kernels "
             "and products, slowly");
    return false;
  }
  if (fe::detail::create_handle(&handle_) != CUDNN_STATUS_SUCCESS) {
    handle_ = nullptr;
    missing_ = false;  // the failure may be temporary, such as a lack of memory
    log_once("cuda.no_cudnn", LogLevel::warning,
             "cuDNN does not start; convolutions on CUDA run as generated kernels and products");
    return false;
  }
  missing_ = false;
  return true;
}

CudnnLibrary::~CudnnLibrary() {
  calls_ = {};
  if (handle_ == nullptr) return;
  const ContextScope scope(context_, std::nothrow);
  fe::detail::destroy_handle(handle_);
}

template <class S>
std::shared_ptr<const CudnnCall> CudnnLibrary::kept_or_planned(const S& step) {
  if (!may_take(step)) return nullptr;
  Key key = key_of(step);
  key.push_back(static_cast<std::int64_t>(plan::Step(S{}).index()));
  const std::lock_guard lock(mutex_);
  if (const auto* known = calls_.find(key)) return *known;
  if (!start()) return nullptr;
  bool short_of_memory = false;
  auto planned = make_call(context_, handle_, step, engines_, short_of_memory);
  if (planned != nullptr || !short_of_memory) calls_.put(key, planned);
  return planned;
}

std::shared_ptr<const CudnnCall> CudnnLibrary::call(const plan::Step& step) {
  return std::visit(
      [this]<class S>(const S& one) -> std::shared_ptr<const CudnnCall> {
        if constexpr (kHasGraph<S>) return kept_or_planned(one);
        return nullptr;
      },
      step);
}

std::shared_ptr<const CudnnCall> CudnnLibrary::checked_call(const plan::Step& step) {
  auto found = call(step);
  std::visit(
      [&]<class S>(const S& one) {
        if constexpr (kHasGraph<S>) {
          if (found != nullptr && found->workspace <= one.workspace_bytes) return;
        }
        throw BackendError(
            fmt::format("{}: cuDNN does not take the call as its operands lie", one.label));
      },
      step);
  return found;
}

std::uint64_t CudnnLibrary::workspace_bytes(const CudnnCall& call) { return call.workspace; }

std::uint64_t CudnnLibrary::bytes() {
  // An estimate for the graph of a call, its execution plans and their descriptors.
  constexpr std::uint64_t kCallBytes = std::uint64_t{128} << 10;
  const std::lock_guard lock(mutex_);
  return calls_.size() * kCallBytes;
}

void CudnnLibrary::drop_unused() {
  const std::lock_guard lock(mutex_);
  calls_.clear();
}

void CudnnLibrary::run(const CudnnCall& call, const plan::Step& step, const Bound& bound,
                       CUstream stream) {
  std::unordered_map<std::int64_t, void*> pack;
  void* workspace = nullptr;
  std::string label;
  std::visit(
      [&]<class S>(const S& one) {
        if constexpr (kHasGraph<S>) {
          for (const CUdeviceptr address : addresses_of(one, bound))
            pack.emplace(static_cast<std::int64_t>(pack.size()) + 1, pointer(address));
          workspace = pointer(bound[one.scratch]);
          label = one.label;
        }
      },
      step);
  const std::lock_guard lock(mutex_);
  fe::detail::set_stream(handle_, reinterpret_cast<cudaStream_t>(stream));
  auto status = call.plan ? call.graph.execute_plan_at_index(handle_, pack, workspace, *call.plan)
                          : call.graph.execute(handle_, pack, workspace);
  check_run(status.is_good(), status.get_message(), label);
}

void CudnnLibrary::check_run(bool good, const std::string& message, const std::string& what) const {
  if (good) return;
  // The library may have failed because of a fault of the device, which is reported first.
  if (const CUresult state = context_.driver().cuStreamQuery(context_.stream());
      state != CUDA_ERROR_NOT_READY) {
    context_.check(state, "running cuDNN");
  }
  throw BackendError(
      fmt::format("{}: cuDNN: running {} failed: {}", context_.name(), what, message));
}

}  // namespace volta::cuda

#else

#include "core/log_once.h"
#include "volta/error.h"

namespace volta::cuda {

class CudnnCall {};

LibraryInfo cudnn_library() { return {.name = "cuDNN", .version = {}, .note = "built without it"}; }

bool CudnnLibrary::start() { return false; }
CudnnLibrary::~CudnnLibrary() = default;
std::shared_ptr<const CudnnCall> CudnnLibrary::call(const plan::Step& step) {
  if (std::holds_alternative<plan::ConvStep>(step)) {
    log_once(
        "cuda.no_cudnn", LogLevel::warning,
        "built without cuDNN; convolutions on CUDA run as generated kernels and products, slowly");
  }
  return nullptr;
}
std::shared_ptr<const CudnnCall> CudnnLibrary::checked_call(const plan::Step& step) {
  throw BackendError(std::visit([](const auto& one) { return one.label; }, step) +
                     ": built without cuDNN");
}
std::uint64_t CudnnLibrary::workspace_bytes(const CudnnCall&) { return 0; }
std::uint64_t CudnnLibrary::bytes() { return 0; }
void CudnnLibrary::drop_unused() {}
void CudnnLibrary::run(const CudnnCall&, const plan::Step&, const Bound&, CUstream) {}

}  // namespace volta::cuda

#endif
