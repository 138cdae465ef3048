// Autocast scopes and the cache of converted parameters.
#include "graph/record/autocast.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "volta/autocast.h"
#include "volta/error.h"

namespace volta {
namespace graph {

// Conversions made in the Autocast scopes of a thread, until the outermost scope ends. The cache
// does not keep parameters alive. A destroyed parameter is removed by destroy(Variable*) or, if
// another thread destroyed it, by a sweep. Another variable may then have its address, but `source`
// keeps the converted node alive, so that a stale entry never matches.
struct CastCache {
  struct Entry {
    NodeRef source;  // the value that was converted
    Held cast;
  };
  static constexpr std::size_t kFew = 64;

  std::unordered_map<const Variable*, Entry> entries;
  std::size_t sweep_at = kFew;

  // The next sweep comes when the number of entries has doubled, which amortises its cost.
  void sweep() {
    std::erase_if(entries, [](const auto& entry) { return entry.second.source->holders() == 0; });
    sweep_at = std::max(kFew, 2 * entries.size());
  }
};

namespace {

bool is_cast_by_rules(DType dtype) { return dtype == DType::f32 || is_half(dtype); }

DType widest_of(std::span<const Tensor* const> operands) {
  std::optional<DType> widest;
  for (const Tensor* operand : operands) {
    if (!operand->defined()) continue;
    const DType dtype = node_of(*operand)->dtype;
    if (is_cast_by_rules(dtype)) widest = widest ? promote(*widest, dtype) : dtype;
  }
  return widest.value_or(DType::f32);
}

// Only the converted value is cached. Every use gets its own tape record, so that one backward pass
// does not consume the history of the next and a recomputed section makes the same number of
// records.
Tensor cast_parameter(const Tensor& leaf, DType dtype, SourceLocation place) {
  const Variable* variable = TensorAccess::variable(leaf);
  CastCache*& cache = recording_state.casts;
  if (cache != nullptr) {
    const auto found = cache->entries.find(variable);
    if (found != cache->entries.end()) {
      const CastCache::Entry& entry = found->second;
      Node* cast = entry.cast.get();
      if (entry.source.get() == variable->node.get() && cast->dtype == dtype &&
          cast->state.load(std::memory_order_acquire) != NodeState::Failed) {
        const Borrowed source = leaf;
        return TensorAccess::make(
            entry.cast,
            grad_mode() ? make_tape(OpId::cast, {&source, 1}, {}, {&cast, 1}, place) : TapeRef());
      }
    }
  }
  Tensor cast = leaf.to(dtype, place);
  // The inputs of a recomputed section are leaves too, but they are not used again.
  if (recording_state.epoch == 0) {
    if (cache == nullptr) cache = new CastCache;
    if (cache->entries.size() >= cache->sweep_at) cache->sweep();
    cache->entries.insert_or_assign(
        variable, CastCache::Entry{NodeRef(variable->node.get()), Held(node_of(cast))});
  }
  return cast;
}

}  // namespace

std::optional<DType> wanted_dtype(AutocastRule rule, std::span<const Tensor* const> operands) {
  if (rule == AutocastRule::none) return std::nullopt;
  const DType wanted = rule == AutocastRule::product  ? recording_state.autocast
                       : rule == AutocastRule::widest ? widest_of(operands)
                                                      : DType::f32;
  bool differs = false;
  for (const Tensor* operand : operands) {
    if (!operand->defined()) continue;
    const DType dtype = node_of(*operand)->dtype;
    if (dtype == DType::f64) return std::nullopt;
    differs = differs || (is_cast_by_rules(dtype) && dtype != wanted);
  }
  return differs ? std::optional(wanted) : std::nullopt;
}

Tensor autocast(const Tensor& operand, DType dtype, SourceLocation place) {
  if (!operand.defined()) return operand;
  const Borrowed source = operand;
  const DType own = source.node()->dtype;
  if (own == dtype || !is_cast_by_rules(own)) return operand;
  const bool is_parameter = source->requires_grad && !source->tape && own == DType::f32;
  return is_parameter ? cast_parameter(operand, dtype, place) : operand.to(dtype, place);
}

std::vector<Tensor> in_full_precision(OpId op, std::span<const Borrowed> inputs,
                                      SourceLocation place) {
  std::vector<Tensor> wide;
  if (op_info(op).autocast != AutocastRule::full ||
      std::none_of(inputs.begin(), inputs.end(),
                   [](const Borrowed& input) { return is_half(input.node()->dtype); })) {
    return wide;
  }
  for (const Borrowed& input : inputs) {
    const Tensor tensor = input.tensor();
    wide.push_back(is_half(tensor.dtype()) ? tensor.to(DType::f32, place) : tensor);
  }
  return wide;
}

void forget_cast(const Variable& variable) noexcept {
  recording_state.casts->entries.erase(&variable);
}

std::size_t kept_casts() {
  return recording_state.casts == nullptr ? 0 : recording_state.casts->entries.size();
}

}  // namespace graph

using graph::recording_state;

namespace {
DType checked(DType dtype) {
  if (dtype != DType::f32 && !graph::is_half(dtype)) {
    throw DTypeError(
        fmt::format("Autocast: expected bf16, f16, or f32 for none, got {}", name_of(dtype)));
  }
  return dtype;
}
}  // namespace

Autocast::Autocast(DType dtype)
    : Scope(recording_state.autocast, recording_state.autocast_scope, checked(dtype)) {}

Autocast::~Autocast() {
  end(recording_state.autocast, recording_state.autocast_scope);
  if (recording_state.autocast_scope == nullptr)
    delete std::exchange(recording_state.casts, nullptr);
}

DType Autocast::dtype() { return recording_state.autocast; }

}  // namespace volta
