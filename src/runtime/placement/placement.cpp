// Decides on which device an operation runs, and moves its operands there.
#include "runtime/placement/placement.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/log_once.h"
#include "graph/record/evaluation.h"
#include "graph/record/formula.h"
#include "graph/record/recorder.h"
#include "graph/record/replicas.h"
#include "platform/env.h"
#include "platform/thread_local.h"
#include "runtime/placement/operation_count.h"
#include "runtime/transfer/transfers.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::graph {
namespace {

Placement named_placement() {
  const std::string text = platform::environment("VOLTA_DEVICE").value_or("");
  if (text.empty() || text == "cpu") return Placement::as_written;
  return text == "auto" || text.starts_with("auto:") ? Placement::by_cost : Placement::force_gpu;
}

std::atomic<PlacementChooser> chooser{nullptr};
VOLTA_INITIAL_EXEC constinit thread_local PlacementTrace* trace_of_thread = nullptr;

// The thread's placement policy, determined at the first operation after its options changed.
struct Policy {
  bool known = false;
  Placement placement = Placement::as_written;
  std::int64_t threshold = 0;
  DeviceEntry* gpu = nullptr;  // null if there is no GPU
  const CostModel* model = nullptr;
  std::uint32_t edition = 0;  // edition of the figures behind `model`
};
VOLTA_INITIAL_EXEC constinit thread_local Policy policy_of_thread;

DeviceEntry* placement_gpu(const ExecutionOptions& options) {
  if (options.gpu) return options.gpu->is_cpu() ? nullptr : &device_entry(*options.gpu);
  if (const std::optional<Device> gpu = Device::gpu()) return &device_entry(*gpu);
  // These calls throw with a message that says why there is no GPU.
  if (options.placement == Placement::force_gpu) Device::parse("gpu");
  if (default_placement != Placement::as_written) Device::best();
  return nullptr;
}

const Policy& policy() {
  Policy& policy = policy_of_thread;
  if (policy.known) [[likely]]
    return policy;
  const ExecutionOptions options = execution_options();
  policy = {.known = true,
            .placement = options.placement,
            .threshold = options.gpu_threshold,
            .gpu = placement_gpu(options)};
  return policy;
}

const CostModel& cost_model_of(DeviceEntry& gpu) {
  Policy& policy = policy_of_thread;
  if (policy.gpu != &gpu) return cost_model(gpu);
  if (policy.model == nullptr || policy.edition != figures_edition()) [[unlikely]] {
    policy.edition = figures_edition();
    policy.model = &cost_model(gpu);
  }
  return *policy.model;
}

// ---- Moving operands to the device of an operation.

bool is_constant(const Node* node) {
  return node->state.load(std::memory_order_acquire) == NodeState::Constant;
}

// Whether this thread recorded the node and has not submitted it, so that its inputs may be read.
bool is_pending_here(const Node* node) {
  return node->state.load(std::memory_order_acquire) == NodeState::Pending &&
         node->recorder.load(std::memory_order_acquire) == &current_recorder(*node->entry);
}

// Views and conversions, whose gradient rules accept a gradient on any device.
bool is_view(OpId op) {
  switch (op) {
    case OpId::reshape:
    case OpId::permute:
    case OpId::expand:
    case OpId::cast:
    case OpId::shrink:
    case OpId::stride:
    case OpId::unfold:
      return true;
    default:
      return false;
  }
}

// Whether the tape consists only of sums and views of leaves.
bool is_sum_of_leaves(const Tape& tape, int depth = 8) {
  const bool sums = tape.op == OpId::add || tape.op == OpId::sub || tape.op == OpId::neg;
  return (sums || is_view(tape.op)) &&
         std::all_of(tape.edges.begin(), tape.edges.end(), [&](const Edge& edge) {
           return !edge.tape || (depth > 0 && is_sum_of_leaves(*edge.tape.get(), depth - 1));
         });
}

// Whether the node is recorded again on another device instead of being copied there. The source of
// a view is usually a parameter, which should move itself; of a much larger source, such as a data
// set, only the part is copied.
bool is_recorded_again(const Node* node) {
  constexpr std::int64_t kParts = 16;
  if ((node->op != OpId::iota && !is_view(node->op)) || !is_pending_here(node)) return false;
  const bool takes_part =
      node->op == OpId::shrink || node->op == OpId::stride || node->op == OpId::unfold;
  return !takes_part || node->inputs[0]->shape.numel() <= kParts * node->shape.numel();
}

// The value that has to be copied if the node is needed on another device.
const Node* root_of(const Node* node) {
  while (node->inputs_count == 1 && is_recorded_again(node)) node = node->inputs[0];
  return node;
}

double bytes_of(const Shape& shape, DType dtype) {
  return static_cast<double>(shape.numel()) * static_cast<double>(size_of(dtype));
}

Held copied(Node* node, DeviceEntry& entry) {
  if (is_constant(node))
    return Held::adopt(make_constant(node->value, node->integer, node->shape, node->dtype, entry));
  if (Held known = known_replica(node, entry)) return known;
  const Tensor copy = entry.device.is_cpu()
                          ? on_host(node)
                          : upload(observe(node).data(), node->shape, node->dtype, entry.device);
  Held held(node_of(copy));
  // The user may change foreign memory, so its copy is not kept as a replica.
  if (node->buffer != nullptr && node->buffer->foreign) return held;
  keep_replica(node, held);
  return held;
}

// Hides moves from the tape collector: a checkpointed section that is computed again may need other
// moves.
class Uncollected {
 public:
  Uncollected() : collector_(std::exchange(recording_state.collector, nullptr)) {}
  ~Uncollected() { recording_state.collector = collector_; }
  Uncollected(const Uncollected&) = delete;
  Uncollected& operator=(const Uncollected&) = delete;

 private:
  TapeCollector* const collector_;
};

// The node's value on the device `entry`. `tape` is the node's history, if it has one.
Held brought(Node* node, const Tape* tape, DeviceEntry& entry, SourceLocation place) {
  if (node->entry == &entry) return Held(node);
  const bool is_of_tape = tape != nullptr && tape->op == node->op;
  const bool sums = is_of_tape && is_pending_here(node) && is_sum_of_leaves(*tape);
  if (!sums && !is_recorded_again(node)) return copied(node, entry);
  // Moving an input may submit the recorder that owns the node's lists, so they are copied.
  const std::vector<std::int64_t> attrs(node->attr_span().begin(), node->attr_span().end());
  std::vector<Held> inputs;
  for (Node* input : node->input_span()) inputs.emplace_back(input);
  std::vector<Node*> there;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Edge* edge = is_of_tape ? &tape->edges[i] : nullptr;
    // A leaf is copied itself, even if it is a view or a sum.
    inputs[i] =
        edge != nullptr && edge->leaf.defined()
            ? copied(inputs[i].get(), entry)
            : brought(inputs[i].get(), edge != nullptr ? edge->tape.get() : nullptr, entry, place);
    there.push_back(inputs[i].get());
  }
  return Held::adopt(record({node->op, node->dtype, there, attrs, node->shape, place}, entry));
}

}  // namespace

const Placement default_placement = named_placement();

void note_options(const ExecutionOptions& options) {
  recording_state.placing = options.placement == Placement::standard     ? Placing::by_default
                            : options.placement == Placement::as_written ? Placing::no
                                                                         : Placing::yes;
  const bool forced =
      options.placement == Placement::force_gpu || options.placement == Placement::force_cpu;
  recording_state.falls_back = forced ? Placing::no : recording_state.placing;
  policy_of_thread.known = false;
}

void set_placement_chooser(PlacementChooser choose) { chooser = choose; }

PlacementTrace::Scope::Scope(PlacementTrace& trace)
    : outer_(std::exchange(trace_of_thread, &trace)) {}
PlacementTrace::Scope::~Scope() { trace_of_thread = outer_; }

Tensor moved(const Borrowed& operand, DeviceEntry& entry, SourceLocation place, bool adopts) {
  Node* node = operand.node();
  if (node->entry == &entry) return operand.tensor();
  const Uncollected uncollected;
  const bool is_leaf = operand->requires_grad && !operand->tape;
  Held there = is_leaf ? copied(node, entry) : brought(node, operand->tape.get(), entry, place);
  Node* output = there.get();
  const std::int64_t attrs[] = {adopts};
  TapeRef tape = make_tape(OpId::to_device, {&operand, 1}, attrs, {&output, 1}, place);
  return TensorAccess::make(std::move(there), std::move(tape));
}

bool takes_gradients_of_any_device(const Tape& tape) {
  return is_view(tape.op) || is_sum_of_leaves(tape);
}

bool adopt_replica(Variable& leaf, DeviceEntry& entry) {
  if (leaf.node->entry == &entry) return true;
  Held replica = is_constant(leaf.node.get()) ? copied(leaf.node.get(), entry)
                                              : known_replica(leaf.node.get(), entry);
  if (!replica) return false;
  if (leaf.grad.defined() && node_of(leaf.grad)->entry != &entry) {
    const Tensor grad = leaf.grad.to(entry.device);
    assign_node(leaf.grad, TensorAccess::variable(grad)->node);
    set_tape(*TensorAccess::variable(leaf.grad), TensorAccess::variable(grad)->tape);
  }
  // The former value stays alive as the replica of its replica until the leaf is assigned again,
  // because spans refer to it and other threads may be reading it.
  swap_with_replica(leaf.node.get(), replica.get());
  leaf.node = std::move(replica);
  return true;
}

namespace {

// ---- Choosing the device of an operation.

// The work of an operation, and the devices of its operands.
struct OperationCost {
  double bytes = 0, multiplications = 0, functions = 0;
  std::int64_t elements = 0;   // elements of the largest operand or result
  DeviceEntry* gpu = nullptr;  // the GPU that holds an operand, if any
  bool on_cpu = false;         // an operand is on the CPU
  bool differentiated = false;
};

// Whether a formula calls a transcendental function.
bool calls_function(std::string_view formula) {
  constexpr std::string_view kFunctions[] = {"exp", "log", "tanh", "erf", "pow", "sin", "cos"};
  return std::any_of(std::begin(kFunctions), std::end(kFunctions), [&](std::string_view name) {
    return formula.find(name) != std::string_view::npos;
  });
}

// Whether the operation evaluates transcendental functions or draws random numbers per element.
bool takes_functions(OpId op) {
  if (is_scalar_op(op)) {
    return (op >= OpId::exp && op <= OpId::erf) || op == OpId::pow || op == OpId::atan2 ||
           op == OpId::fmod;
  }
  switch (op) {
    case OpId::softmax:
    case OpId::log_softmax:
    case OpId::logsumexp:
    case OpId::cross_entropy:
    case OpId::dropout:
      return true;
    default:
      break;
  }
  const FormulaText* formula = op_info(op).formula;
  if (formula == nullptr) return false;
  // Caches the answer for each operation: 0 unknown, 1 no, 2 yes.
  static std::array<std::atomic<std::uint8_t>, kOps> found{};
  const auto number = static_cast<std::size_t>(op);
  if (number >= kOps) return calls_function(formula->value);
  const std::uint8_t known = found[number].load(std::memory_order_relaxed);
  if (known != 0) return known == 2;
  const bool calls = calls_function(formula->value);
  found[number].store(calls ? 2 : 1, std::memory_order_relaxed);
  return calls;
}

// Whether the operation reads only those elements of its first operand that it returns.
bool reads_part(OpId op) {
  switch (op) {
    case OpId::gather:
    case OpId::index:
    case OpId::take_along:
    case OpId::gather_along:
    case OpId::select_rows:
    case OpId::select_at:
    case OpId::rows_at_true:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void throw_two_gpus(const Unplaced& operation, Device a, Device b) {
  throw DeviceError(fmt::format("{}: operands on {} and {} ({}:{})", op_info(operation.op).name,
                                to_string(a), to_string(b), operation.place.file(),
                                operation.place.line()));
}

OperationCost cost_of(const Unplaced& operation) {
  OperationCost cost;
  const bool part = reads_part(operation.op);
  for (std::size_t i = 0; i < operation.inputs.size(); ++i) {
    const Borrowed& input = operation.inputs[i];
    const Node* node = input.node();
    cost.differentiated = cost.differentiated || input.wants_gradient();
    if (is_constant(node)) continue;
    DeviceEntry* entry = node->entry;
    if (entry->device.is_cpu()) {
      cost.on_cpu = true;
    } else {
      if (cost.gpu != nullptr && cost.gpu != entry)
        throw_two_gpus(operation, cost.gpu->device, entry->device);
      cost.gpu = entry;
    }
    if (part && i == 0) continue;
    const std::int64_t elements = node->shape.numel();
    cost.bytes += static_cast<double>(elements) * static_cast<double>(size_of(node->dtype));
    cost.elements = std::max(cost.elements, elements);
  }
  for (std::size_t i = 0; i < operation.shapes.size(); ++i) {
    cost.bytes += (part ? 2 : 1) * bytes_of(operation.shapes[i], operation.dtypes[i]);
    cost.elements = std::max(cost.elements, operation.shapes[i].numel());
  }
  if (is_product(operation.op)) {
    std::vector<Node*> nodes;
    nodes.reserve(operation.inputs.size());
    for (const Borrowed& input : operation.inputs) nodes.push_back(input.node());
    cost.multiplications = 0.5 * static_cast<double>(operations_of(
                                     operation.op, nodes, operation.attrs, operation.shapes[0]));
  }
  if (takes_functions(operation.op)) cost.functions = static_cast<double>(cost.elements);
  cost.differentiated = cost.differentiated && grad_mode();
  return cost;
}

// A value that an operation would move, the seconds of the move and those of moving its gradient
// back.
struct Move {
  Node* root;
  double seconds, back;
};
// Whether the operand's gradient has to be copied back from the device that `root` moves to.
// Leaves, and views and sums of leaves, need no copy, because the leaves move to that device
// themselves.
bool gradient_returns(const Borrowed& operand, const Node* root) {
  const Tape* tape = operand->tape.get();
  if (tape == nullptr) return false;
  if (!is_sum_of_leaves(*tape)) return true;
  while (is_view(tape->op) && tape->edges[0].tape) tape = tape->edges[0].tape.get();
  if (!is_view(tape->op)) return !is_pending_here(root);
  // Copying a view alone does not move its leaf.
  const Tensor& leaf = tape->edges[0].leaf;
  return !leaf.defined() || node_of(leaf) != root;
}

// The moves that the operands need, each value once; `differentiated` adds those of their
// gradients.
std::vector<Move> moves_to(const DeviceEntry& entry, std::span<const Borrowed> inputs,
                           bool differentiated, const PlacementFigures& figures) {
  const bool to_cpu = entry.device.is_cpu();
  const TimeCurve& there = to_cpu ? figures.download : figures.upload;
  const TimeCurve& back = to_cpu ? figures.upload : figures.download;
  std::vector<Move> moves;
  for (const Borrowed& input : inputs) {
    Node* node = input.node();
    if (node->entry == &entry || is_constant(node)) continue;
    auto* root = const_cast<Node*>(root_of(node));
    if (is_constant(root) || root->op == OpId::iota || known_replica(root, entry)) continue;
    if (std::any_of(moves.begin(), moves.end(), [&](const Move& m) { return m.root == root; }))
      continue;
    const double bytes = bytes_of(root->shape, root->dtype);
    // Downloading a pending value splits the recorded work in two, so the GPU pays its start-up
    // time twice.
    const bool cuts = to_cpu && is_pending_here(root);
    const bool returns = differentiated && input.wants_gradient() && gradient_returns(input, root);
    moves.push_back({root, there.seconds(bytes) + (cuts ? figures.gpu.memory.seconds(0) : 0),
                     returns ? back.seconds(bytes) : 0});
  }
  return moves;
}

// Chooses the device that finishes the operation first. The seconds missed by not moving a value
// are summed in the value; once they exceed the cost of the move, the value moves.
DeviceEntry& cheaper(const Unplaced& operation, const OperationCost& cost, DeviceEntry& cpu,
                     DeviceEntry& gpu, const CostModel& model) {
  const bool on_gpu = cost.gpu != nullptr;
  if (on_gpu && !cost.on_cpu && cost.bytes <= model.stay_bytes &&
      cost.multiplications <= model.stay_multiplications)
    return gpu;
  if (!on_gpu && cost.bytes <= model.small_bytes &&
      cost.multiplications <= model.small_multiplications &&
      cost.functions <= model.small_functions)
    return cpu;
  // A differentiated operation is followed by about two operations of the backward pass.
  const double times = cost.differentiated ? 3 : 1;
  const PlacementFigures& figures = model.figures;
  const double cpu_work =
      times * CostModel::whole(figures.cpu, cost.bytes, cost.multiplications, cost.functions);
  const double gpu_work =
      times *
      (on_gpu ? model.marginal_gpu(cost.bytes, cost.multiplications, cost.functions)
              : CostModel::whole(figures.gpu, cost.bytes, cost.multiplications, cost.functions));
  double up = 0, down = 0;
  const std::vector<Move> uploads = moves_to(gpu, operation.inputs, cost.differentiated, figures);
  for (const Move& move : uploads) {
    const double missed = move.root->missed_seconds.load(std::memory_order_relaxed);
    up += std::max(0.0, move.seconds + move.back - missed);
  }
  for (const Move& move : moves_to(cpu, operation.inputs, cost.differentiated, figures))
    down += move.seconds + move.back;
  if (gpu_work + up < cpu_work + down) {
    for (const Move& move : uploads) move.root->missed_seconds.store(0, std::memory_order_relaxed);
    return gpu;
  }
  if (const double gain = cpu_work + down - gpu_work; gain > 0) {
    double total = 0;
    for (const Move& move : uploads) total += move.seconds + move.back;
    for (const Move& move : uploads) {
      const double share = (move.seconds + move.back) / total;
      const float before = move.root->missed_seconds.load(std::memory_order_relaxed);
      move.root->missed_seconds.store(before + static_cast<float>(gain * share),
                                      std::memory_order_relaxed);
    }
  }
  return cpu;
}

bool has_dtypes(const DeviceEntry& entry, const Unplaced& operation) {
  const auto has = [&](DType dtype) { return entry.backend.supports(entry.index, dtype); };
  return std::all_of(operation.dtypes.begin(), operation.dtypes.end(), has) &&
         std::all_of(operation.inputs.begin(), operation.inputs.end(),
                     [&](const Borrowed& input) { return has(input.node()->dtype); });
}

DeviceEntry& cpu_entry() {
  static DeviceEntry& entry = device_entry(Device::cpu());
  return entry;
}

DeviceEntry& wanted_device(const Unplaced& operation, const OperationCost& cost,
                           const Policy& policy, DeviceEntry& gpu) {
  DeviceEntry& cpu = cpu_entry();
  const bool on_gpu = cost.gpu != nullptr;
  switch (policy.placement) {
    case Placement::standard:
    case Placement::as_written:
    case Placement::force_cpu:
      return cpu;
    case Placement::force_gpu:
      return gpu;
    case Placement::automatic:
      return on_gpu || cost.elements >= policy.threshold ? gpu : cpu;
    case Placement::by_cost:
      return cheaper(operation, cost, cpu, gpu, cost_model_of(gpu));
    case Placement::minimize_transfers:
      break;
  }
  double there = 0, here = 0;
  for (const Borrowed& input : operation.inputs) {
    const Node* node = input.node();
    if (is_constant(node)) continue;
    const double bytes = bytes_of(node->shape, node->dtype);
    there += node->entry == &gpu || known_replica(node, gpu) ? bytes : 0;
    here += node->entry == &cpu || known_replica(node, cpu) ? bytes : 0;
  }
  return there >= here ? gpu : cpu;
}

DeviceEntry& chosen_device(const Unplaced& operation) {
  const Policy& policy = graph::policy();
  const OperationCost cost = cost_of(operation);
  DeviceEntry* const gpu = cost.gpu != nullptr ? cost.gpu : policy.gpu;
  if (gpu == nullptr) return cpu_entry();
  DeviceEntry* wanted = nullptr;
  if (const PlacementChooser choose = chooser.load(std::memory_order_relaxed)) [[unlikely]]
    wanted = choose(operation.op);
  if (wanted == nullptr) {
    const bool forced =
        policy.placement == Placement::force_gpu || policy.placement == Placement::force_cpu;
    if (!forced && cost.gpu == nullptr && !cost.on_cpu)
      return *operation.inputs[0].node()->entry;  // all operands are constants
    // Rearranging causes no move; the operation that computes with the result decides.
    const bool stays =
        !forced && only_arranges(operation.op) && (cost.gpu == nullptr || !cost.on_cpu);
    wanted = stays ? cost.gpu != nullptr ? gpu : &cpu_entry()
                   : &wanted_device(operation, cost, policy, *gpu);
  }
  if (!wanted->device.is_cpu() && !has_dtypes(*wanted, operation)) return cpu_entry();
  return *wanted;
}

bool is_at(const Borrowed& input, const DeviceEntry& entry) {
  return input.node()->entry == &entry;
}

std::vector<Tensor> moved_operands(const Unplaced& operation, DeviceEntry& entry) {
  const TransferReason reason("placement", operation.place, op_info(operation.op).name);
  std::vector<Tensor> operands;
  operands.reserve(operation.inputs.size());
  for (const Borrowed& input : operation.inputs)
    operands.push_back(moved(input, entry, operation.place, true));
  return operands;
}

}  // namespace

std::vector<Tensor> placed_operands(const Unplaced& operation) {
  if (operation.inputs.empty()) return {};
  PlacementTrace* const trace = trace_of_thread;
  DeviceEntry* const before = trace != nullptr ? trace->next() : nullptr;
  DeviceEntry& entry = before != nullptr ? *before : chosen_device(operation);
  if (trace != nullptr && before == nullptr) trace->add(entry);
  if (std::all_of(operation.inputs.begin(), operation.inputs.end(),
                  [&](const Borrowed& input) { return is_at(input, entry); }))
    return {};
  const Placement placement = policy().placement;
  if (entry.device.is_cpu() || placement == Placement::force_gpu)
    return moved_operands(operation, entry);
  try {
    return moved_operands(operation, entry);
  } catch (const OutOfMemory& error) {
    log_once(fmt::format("placement without memory at {}:{}", operation.place.file(),
                         operation.place.line()),
             LogLevel::warning,
             fmt::format("{}: {} has no memory for its operands, it runs on the CPU ({}:{})",
                         op_info(operation.op).name, to_string(entry.device),
                         operation.place.file(), operation.place.line()));
    return moved_operands(operation, cpu_entry());
  }
}

Device placed_creation(const Shape& shape, DType dtype, bool from_host) {
  const Policy& policy = graph::policy();
  if (policy.gpu == nullptr) return Device::cpu();
  const Device gpu = policy.gpu->device;
  if (policy.placement == Placement::force_gpu) return gpu;
  if (!policy.gpu->backend.supports(policy.gpu->index, dtype)) return Device::cpu();
  if (policy.placement == Placement::automatic)
    return shape.numel() >= policy.threshold ? gpu : Device::cpu();
  if (policy.placement != Placement::by_cost || from_host) return Device::cpu();
  const PlacementFigures& figures = cost_model_of(*policy.gpu).figures;
  // A tensor is created once but used often, so the choice depends on the cost of the simplest
  // operation that reads and writes it. The tensor moves later if other operations are cheaper
  // elsewhere.
  const double bytes = 2 * bytes_of(shape, dtype);
  return CostModel::whole(figures.gpu, bytes, 0, 0) < CostModel::whole(figures.cpu, bytes, 0, 0)
             ? gpu
             : Device::cpu();
}

}  // namespace volta::graph
