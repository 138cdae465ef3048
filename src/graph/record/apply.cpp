// Records operations on tensors.
#include "graph/record/apply.h"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "backend/registry.h"
#include "core/convert.h"
#include "core/log_once.h"
#include "core/text.h"
#include "graph/record/autocast.h"
#include "graph/record/observer.h"
#include "graph/record/placing.h"
#include "graph/record/recorder.h"
#include "graph/record/tape_extras.h"
#include "platform/env.h"
#include "platform/thread_local.h"
#include "volta/autograd.h"
#include "volta/detail/source_location_scope.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/log.h"
#include "volta/transfers.h"

namespace volta::graph {

// Numbers follow the recording order within a thread and the order of dependence between threads.
std::uint64_t next_tape_sequence(std::uint64_t after) {
  VOLTA_INITIAL_EXEC static constinit thread_local std::uint64_t last = 0;
  return last = std::max(last, after) + 1;
}

namespace {

// A list converted from another list. Up to kFew elements need no heap allocation.
template <class T>
class ConvertedList {
 public:
  template <class Source, class Convert>
  ConvertedList(std::span<const Source> source, Convert convert) : count_(source.size()) {
    T* data = few_;
    if (count_ > kFew) {
      many_ = std::make_unique<T[]>(count_);
      data = many_.get();
    }
    for (std::size_t i = 0; i < count_; ++i) data[i] = convert(source[i]);
  }
  std::span<const T> span() const { return {count_ > kFew ? many_.get() : few_, count_}; }

 private:
  static constexpr std::size_t kFew = 8;
  std::size_t count_;
  T few_[kFew];
  std::unique_ptr<T[]> many_;
};
ConvertedList<Borrowed> borrowed(std::span<const Tensor> tensors) {
  return {tensors, [](const Tensor& tensor) { return Borrowed(tensor); }};
}
ConvertedList<Node*> nodes_of(std::span<const Borrowed> inputs) {
  return {inputs, [](const Borrowed& input) { return input.node(); }};
}

}  // namespace

Tensor Borrowed::tensor() const {
  variable_->refs.fetch_add(1, std::memory_order_relaxed);
  return TensorAccess::wrap(variable_);
}

VOLTA_INITIAL_EXEC constinit thread_local RecordingState recording_state;

// The linker's symbols for the first and the last byte of the library that contains this file.
extern "C" {
[[gnu::visibility("hidden")]] extern const char library_start __asm__("__ehdr_start");
[[gnu::visibility("hidden")]] extern const char library_end __asm__("_end");
}
bool is_own(SourceLocation place) {
  const std::less<> before;
  return !before(place.file(), &library_start) && before(place.file(), &library_end);
}

namespace {
// The values that the first record of an operation saves if the operation is recorded again.
std::uint32_t saves_of_first(const Op& op, const TapeCollector& collector) {
  const std::size_t number = collector.tapes.size();
  if (number >= collector.first.size() || collector.first[number] == nullptr) return kSavesNothing;
  std::uint32_t saves = kSavesNothing;
  const Tape& tape = *collector.first[number];
  for (std::size_t i = 0; i < tape.edges.size(); ++i) {
    if (tape.edges[i].tape || tape.edges[i].leaf.defined()) saves |= op.saves.of(i);
  }
  return saves;
}
}  // namespace

TapeRef make_tape(OpId id, std::span<const Borrowed> inputs, std::span<const std::int64_t> attrs,
                  std::span<Node* const> outputs, SourceLocation place) {
  const Op& op = op_info(id);
  const Node& output = *outputs[0];
  if (!grad_mode() || op.vjp == nullptr || !is_floating(output.dtype)) return {};
  bool any = false;
  std::uint32_t saves = kSavesNothing;
  std::uint64_t after = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Borrowed& input = inputs[i];
    if (input.wants_gradient()) {
      any = true;
      saves |= op.saves.of(i);
    }
    if (input->tape) after = std::max(after, input->tape->sequence);
  }
  if (!any) return {};
  if (TapeCollector* collector = recording_state.collector) [[unlikely]]
    saves |= saves_of_first(op, *collector);
  begin_step(output);
  TapeRef tape = TapeRef::adopt(Slab<Tape>::make(id, output.shape, output.dtype, place));
  tape->sequence = next_tape_sequence(after);
  for (const std::int64_t attr : attrs) tape->attrs.emplace_back(attr);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Borrowed input = inputs[i];
    const Node& node = *input.node();
    Edge& edge =
        tape->edges.emplace_back(TapeRef(), Tensor(), node.shape, node.dtype, node.entry->device);
    if (is_floating(node.dtype)) {
      if (input->tape) {
        edge.tape = input->tape;
      } else if (input->requires_grad) {
        edge.leaf = input.tensor();
      }
    }
    const bool saved = i < 30 && (saves >> i & 1) != 0;
    tape->saved.emplace_back(saved ? input.node() : nullptr);
  }
  if ((saves & kSavesOutput) != 0) tape->output = Held(outputs[0]);
  if ((saves & kSavesAuxiliary) != 0) {
    for (std::size_t i = 1; i < outputs.size(); ++i) tape->auxiliary.emplace_back(outputs[i]);
  }
  if (TapeCollector* collector = recording_state.collector) collector->tapes.push_back(tape);
  return tape;
}

DeviceEntry& entry_of(const Tensor& tensor) { return *node_of(tensor)->entry; }

void throw_undefined(const char* op, const char* what) {
  throw ArgumentError(fmt::format("{}: {} is not a tensor", op, what));
}

void throw_dtype(const char* op, DType dtype, const char* wanted) {
  throw DTypeError(fmt::format("{}: expected {}, got {}", op, wanted, name_of(dtype)));
}

void require_floating(const char* op, const Tensor& tensor) {
  require_defined(op, tensor);
  const DType dtype = node_of(tensor)->dtype;
  if (!is_floating(dtype)) throw_dtype(op, dtype, "a floating-point tensor");
}

void require_supported(const char* op, DType dtype, Device device) {
  DeviceEntry& entry = device_entry(device);
  if (!entry.backend.supports(entry.index, dtype)) {
    throw DTypeError(
        fmt::format("{}: {} ({}) has no {}", op, to_string(device), device.name(), name_of(dtype)));
  }
}

bool is_axis_of_scalar(const char* op, std::int64_t axis, const Shape& shape) {
  if (shape.rank() != 0) return false;
  if (axis != 0 && axis != -1) normalize_axis(op, axis, shape);  // throws
  return true;
}

namespace {
// "cpu [2, 3]", followed by the line that made the tensor if that is known.
std::string described(const Tensor& tensor) {
  const Node& node = *node_of(tensor);
  const SourceLocation& place = node.place;
  const bool known = place.line() > 0 && !is_own(place);
  return fmt::format("{} {}{}", to_string(node.entry->device), to_string(node.shape),
                     known ? ", made at " + place_text(place) : "");
}
}  // namespace

void agree_on_device(const char* op, std::span<Tensor> operands, SourceLocation from) {
  if (is_placing()) [[unlikely]]
    return;  // apply chooses a device for the operands
  const Tensor* other = nullptr;
  for (const Tensor& t : operands) {
    if (other == nullptr && t.defined() && t.device() != operands[0].device()) other = &t;
  }
  if (other == nullptr) return;
  const SourceLocation place = reported_place(from);
  const Device first = operands[0].device(), second = other->device();
  const MixedDevices policy = execution_options().mixed_devices;
  if (policy == MixedDevices::error || (first.is_gpu() && second.is_gpu())) {
    throw DeviceError(fmt::format("{}: operands on {} and {} ({}:{})", op, described(operands[0]),
                                  described(*other), place.file(), place.line()));
  }
  const Device gpu = first.is_gpu() ? first : second;
  const Device target = policy == MixedDevices::to_cpu ? Device::cpu() : gpu;
  log_once(fmt::format("mixed devices at {}:{}", place.file(), place.line()), LogLevel::warning,
           fmt::format("{}: operands on {} and {}: moved to {} ({}:{})", op, to_string(first),
                       to_string(second), to_string(target), place.file(), place.line()));
  const TransferReason reason("mixed devices", place, op);
  DeviceEntry& entry = device_entry(target);
  for (Tensor& t : operands) {
    if (!t.defined() || t.device() == target) continue;
    require_supported(op, t.dtype(), target);
    t = moved(t, entry, place, false);
  }
}

namespace {
// VOLTA_EAGER=1 evaluates every operation when it is called, so that debuggers and errors point at
// the call.
bool is_eager() {
  static const bool wanted = [] {
    const std::string value = platform::environment("VOLTA_EAGER").value_or("off");
    if (value == "1" || value == "on") return true;
    if (value == "0" || value == "off") return false;
    throw ArgumentError(fmt::format("VOLTA_EAGER={}: expected 1 or on, 0 or off", value));
  }();
  return wanted;
}

// Records the operation on the device of its operands.
Tensor applied(OpId op, std::span<const Borrowed> inputs, std::span<const std::int64_t> attrs,
               const Shape& shape, DType dtype, SourceLocation place) {
  const ConvertedList<Node*> nodes = nodes_of(inputs);
  Held node =
      Held::adopt(record({op, dtype, nodes.span(), attrs, shape, place}, *inputs[0]->node->entry));
  Node* output = node.get();
  TapeRef tape = grad_mode() ? make_tape(op, inputs, attrs, {&output, 1}, place) : TapeRef();
  Tensor result = TensorAccess::make(std::move(node), std::move(tape));
  if (RecordingObserver* observer = recording_state.observer) [[unlikely]]
    observer->recorded(op, inputs, result, place);
  if (is_eager()) [[unlikely]]
    result.eval();
  return result;
}

}  // namespace

Tensor apply(OpId op, std::span<const Borrowed> inputs, std::span<const std::int64_t> attrs,
             const Shape& shape, DType dtype, SourceLocation from) {
  const SourceLocation place = reported_place(from);
  if (in_autocast()) [[unlikely]] {
    if (const std::vector<Tensor> wide = in_full_precision(op, inputs, place); !wide.empty())
      return apply(op, wide, attrs, shape, without_halves(dtype), place);
  }
  if (is_placing()) [[unlikely]] {
    const std::vector<Tensor> operands =
        placed_operands({op, inputs, attrs, {&shape, 1}, {&dtype, 1}, place});
    if (!operands.empty())
      return applied(op, borrowed(operands).span(), attrs, shape, dtype, place);
  }
  return applied(op, inputs, attrs, shape, dtype, place);
}

Tensor apply(OpId op, std::span<const Tensor> inputs, std::span<const std::int64_t> attrs,
             const Shape& shape, DType dtype, SourceLocation place) {
  return apply(op, borrowed(inputs).span(), attrs, shape, dtype, place);
}

Tensor apply(OpId op, std::initializer_list<Borrowed> inputs,
             std::initializer_list<std::int64_t> attrs, const Shape& shape, DType dtype,
             SourceLocation place) {
  return apply(op, std::span(inputs.begin(), inputs.size()), std::span(attrs.begin(), attrs.size()),
               shape, dtype, place);
}

namespace {
std::vector<Tensor> applied_multi(OpId op, std::span<const Tensor> inputs,
                                  std::span<const std::int64_t> attrs,
                                  std::span<const Shape> shapes, std::span<const DType> dtypes,
                                  SourceLocation place) {
  const ConvertedList<Borrowed> views = borrowed(inputs);
  const ConvertedList<Node*> nodes = nodes_of(views.span());
  std::vector<Node*> outputs(shapes.size());
  record_multi({op, dtypes[0], nodes.span(), attrs, shapes[0], place}, entry_of(inputs[0]), shapes,
               dtypes, outputs);
  TapeRef tape = make_tape(op, views.span(), attrs, outputs, place);
  std::vector<Tensor> results;
  results.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(TensorAccess::make(Held::adopt(outputs[i]), i == 0 ? tape : TapeRef{}));
  }
  if (RecordingObserver* observer = recording_state.observer) [[unlikely]]
    observer->recorded(op, views.span(), results[0], place);
  if (is_eager()) [[unlikely]]
    results[0].eval();
  return results;
}
}  // namespace

std::vector<Tensor> apply_multi(OpId op, std::span<const Tensor> inputs,
                                std::span<const std::int64_t> attrs, std::span<const Shape> shapes,
                                std::span<const DType> dtypes, SourceLocation from) {
  const SourceLocation place = reported_place(from);
  const ConvertedList<Borrowed> views = borrowed(inputs);
  if (in_autocast()) [[unlikely]] {
    if (const std::vector<Tensor> wide = in_full_precision(op, views.span(), place);
        !wide.empty()) {
      std::vector<DType> wide_dtypes(dtypes.size());
      std::transform(dtypes.begin(), dtypes.end(), wide_dtypes.begin(), without_halves);
      return apply_multi(op, wide, attrs, shapes, wide_dtypes, place);
    }
  }
  if (is_placing()) [[unlikely]] {
    const std::vector<Tensor> operands =
        placed_operands({op, views.span(), attrs, shapes, dtypes, place});
    if (!operands.empty()) return applied_multi(op, operands, attrs, shapes, dtypes, place);
  }
  return applied_multi(op, inputs, attrs, shapes, dtypes, place);
}

namespace {
Tensor constant(const Shape& shape, Scalar value, DType dtype, DeviceEntry& entry) {
  if (dtype == DType::boolean) value = value.value() != 0;
  return TensorAccess::make(Held::adopt(
      make_constant(is_floating(dtype) ? value.value() : static_cast<double>(value.integer()),
                    value.integer(), shape, dtype, entry)));
}
}  // namespace

// In f16 and bf16 the number is rounded here; for other dtypes the reader of the constant rounds
// it.
Tensor filled(const Shape& shape, Scalar value, DType dtype, DeviceEntry& entry) {
  const bool half = dtype == DType::f16 || dtype == DType::bf16;
  return constant(shape, half ? Scalar(nearest(value.value(), dtype)) : value, dtype, entry);
}

Tensor filled(const Shape& shape, Scalar value, DType dtype, Device device) {
  return filled(shape, value, dtype, device_entry(device));
}

Tensor operand_number(const char* op, Scalar value, DType dtype, DeviceEntry& entry) {
  require_fits(op, value, dtype);
  return constant(Shape{}, value, dtype, entry);
}

Tensor number(Scalar value, DType dtype, Device device) {
  return constant(Shape{}, value, dtype, device_entry(device));
}

Tensor argument(std::int64_t value, Device device) {
  // Literals of the key are recognised by their double value; NaN is never one.
  constexpr double kNoLiteral = std::numeric_limits<double>::quiet_NaN();
  return TensorAccess::make(
      Held::adopt(make_constant(kNoLiteral, value, Shape{}, DType::i64, device_entry(device))));
}

Tensor reshape_to(const Tensor& x, const Shape& shape, SourceLocation place) {
  const Borrowed source = x;
  if (source.node()->shape == shape) return x;
  return apply(OpId::reshape, {&source, 1}, shape.sizes(), shape, source.node()->dtype, place);
}

Tensor expand_to(const Tensor& x, const Shape& shape, SourceLocation place) {
  const Borrowed source = x;
  if (source.node()->shape == shape) return x;
  return apply(OpId::expand, {&source, 1}, shape.sizes(), shape, source.node()->dtype, place);
}

Tensor sum_axes(const Tensor& x, std::span<const std::int64_t> axes, bool keepdim,
                SourceLocation place) {
  std::vector<std::int64_t> kept, ones;
  for (int i = 0; i < x.rank(); ++i) {
    const bool gone = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!gone) kept.push_back(x.shape()[i]);
    ones.push_back(gone ? 1 : x.shape()[i]);
  }
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : DType::i64;
  Tensor source = x.dtype() == dtype ? x : x.to(dtype, place);
  Tensor result = apply(OpId::sum, {&source, 1}, axes, Shape(kept), dtype, place);
  return keepdim ? reshape_to(result, Shape(ones), place) : result;
}

}  // namespace volta::graph

namespace volta {

using graph::recording_state;

SourceLocationScope::SourceLocationScope(SourceLocation place)
    : place_(place), outer_(graph::recording_state.caller) {
  if (!graph::is_own(place)) graph::recording_state.caller = &place_;
}
SourceLocationScope::~SourceLocationScope() { graph::recording_state.caller = outer_; }

NoGrad::NoGrad() : Scope(recording_state.history, recording_state.history_scope, false) {}
NoGrad::~NoGrad() { end(recording_state.history, recording_state.history_scope); }
EnableGrad::EnableGrad() : Scope(recording_state.history, recording_state.history_scope, true) {}
EnableGrad::~EnableGrad() { end(recording_state.history, recording_state.history_scope); }
bool grad_enabled() { return graph::grad_mode(); }

namespace {
VOLTA_INITIAL_EXEC constinit thread_local ExecutionOptions options_of_thread = {};
VOLTA_INITIAL_EXEC constinit thread_local Scope<ExecutionOptions>* innermost_context = nullptr;

ExecutionOptions checked(const ExecutionOptions& options) {
  if (options.gpu_threshold < 0) {
    throw ArgumentError(
        fmt::format("ExecutionContext: gpu_threshold must not be negative, got {} (0 makes every "
                    "tensor count as large)",
                    options.gpu_threshold.value()));
  }
  return options;
}

ExecutionOptions within(const ExecutionOptions& around, const ExecutionOptions& options) {
  return {.matmul = options.matmul.within(around.matmul),
          .mixed_devices = options.mixed_devices.within(around.mixed_devices),
          .placement = options.placement.within(around.placement),
          .gpu_threshold = options.gpu_threshold.within(around.gpu_threshold),
          .gpu = options.gpu ? options.gpu : around.gpu,
          .deterministic = options.deterministic.within(around.deterministic)};
}
}  // namespace

ExecutionContext::ExecutionContext(ExecutionOptions options)
    : Scope(options_of_thread, innermost_context, within(options_of_thread, checked(options))) {
  graph::note_options(options_of_thread);
}
ExecutionContext::~ExecutionContext() {
  end(options_of_thread, innermost_context);
  graph::note_options(options_of_thread);
}
ExecutionOptions execution_options() {
  const ExecutionOptions& o = options_of_thread;
  const bool is_standard = o.placement == Placement::standard;
  return {.matmul = o.matmul.value(),
          .mixed_devices = o.mixed_devices.value(),
          .placement = is_standard ? graph::default_placement : o.placement.value(),
          .gpu_threshold = o.gpu_threshold.value(),
          .gpu = o.gpu,
          .deterministic = o.deterministic.value()};
}

}  // namespace volta
