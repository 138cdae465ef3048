// Propagates dependences on checked indices from the leaves and from the run's own checks to its
// results.
#include "runtime/indices/index_results.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "runtime/indices/index_checks.h"

namespace volta::plan {

using graph::Batch;
using graph::Dependence;
using graph::Node;

namespace {

// One bit per distinct Dependence of the leaves; beyond 64, they share the last bit.
struct Origins {
  std::vector<std::shared_ptr<const Dependence>> dependences;
  std::vector<std::uint64_t> leaf_bits;

  void add(const Batch& batch, std::size_t leaf, const std::shared_ptr<const Dependence>& more) {
    leaf_bits.resize(batch.leaves.size());
    auto found = std::find(dependences.begin(), dependences.end(), more);
    if (found == dependences.end()) found = dependences.insert(found, more);
    leaf_bits[leaf] = std::uint64_t{1} << std::min<std::ptrdiff_t>(found - dependences.begin(), 63);
  }

  // For each node of the batch, the bits of the leaves that it is computed from.
  std::vector<std::uint64_t> follow(const Batch& batch) const {
    std::vector<std::uint64_t> bits(batch.nodes.size());
    if (dependences.empty()) return bits;
    for (std::size_t n = 0; n < batch.nodes.size(); ++n) {
      for (const Node* input : batch.nodes[n]->input_span()) {
        if (input->index < n && batch.nodes[input->index] == input) {
          bits[n] |= bits[input->index];
        } else if (const std::uint32_t leaf = batch.find_leaf(input); leaf != Batch::kNoLeaf) {
          bits[n] |= leaf_bits[leaf];
        }
      }
    }
    return bits;
  }

  void add_to(Dependence& to, std::uint64_t bits, bool as_state) const {
    for (std::size_t k = 0; k < dependences.size(); ++k) {
      if ((bits >> std::min<std::size_t>(k, 63) & 1) == 0) continue;
      for (Dependence::Runs runs : dependences[k]->runs) {
        if (runs.as_state) continue;
        runs.as_state = as_state;
        to.add(std::move(runs));
      }
    }
  }
};

// Whether `value` is computed from `other` within the batch.
bool depends_on(const Batch& batch, const Node* value, const Node* other) {
  std::vector<bool> seen(batch.nodes.size(), false);
  std::vector<const Node*> next{value};
  while (!next.empty()) {
    const Node* node = next.back();
    next.pop_back();
    if (node == other) return true;
    if (node->index >= batch.nodes.size() || batch.nodes[node->index] != node ||
        seen[node->index]) {
      continue;
    }
    seen[node->index] = true;
    for (const Node* input : node->input_span()) next.push_back(input);
  }
  return false;
}

// Marks the nodes that are new values of state: those of an optimizer, or of a variable that is
// updated from its own former value.
std::vector<bool> state_nodes(const Batch& batch) {
  std::vector<bool> is_state(batch.nodes.size(), false);
  for (const Node* node : batch.nodes) is_state[node->index] = node->is_state;
  for (const graph::JournalEntry& entry : batch.journal) {
    if (!entry.is_state || is_state[entry.assigned->index]) continue;
    // In a repeated step the former value is a leaf, which exists only because the new value reads
    // it.
    is_state[entry.assigned->index] =
        entry.leaf != Batch::kNoLeaf || depends_on(batch, entry.assigned, entry.previous);
  }
  return is_state;
}

}  // namespace

void note_dependences(const Plan& plan, const Batch& batch, std::uint64_t run) {
  Dependence
      shared;  // unreported failures of state that the batch read; every result inherits them
  Origins origins;
  const Dependence* last = nullptr;  // parameters updated by one step share a Dependence
  for (std::size_t i = 0; i < batch.leaves.size(); ++i) {
    const auto* indices = batch.leaves[i].node->indices();
    if (indices == nullptr) continue;
    const std::shared_ptr<const Dependence>& dependence = *indices;
    bool strict = false;
    for (const Dependence::Runs& on : dependence->runs) {
      if (!on.as_state) {
        strict |= on.matters();
      } else if (dependence.get() != last) {
        shared.add(on);
      }
    }
    last = dependence.get();
    if (strict) origins.add(batch, i, dependence);
  }
  Dependence own;
  if (plan.checks) own.add({plan.checks, run, run, false});
  if (shared.runs.empty() && own.runs.empty() && origins.dependences.empty()) return;

  const std::vector<std::uint64_t> bits = origins.follow(batch);
  const std::vector<bool> is_state = state_nodes(batch);
  std::map<std::tuple<std::uint64_t, bool, bool>, std::shared_ptr<const Dependence>> made;
  for (std::size_t i = 0; i < plan.results.size(); ++i) {
    const std::uint32_t n = plan.results[i].node;
    auto& dependence = made[{bits[n], plan.checked[i], is_state[n]}];
    if (!dependence) {
      Dependence fresh = shared;
      for (Dependence::Runs runs : own.runs) {
        if (!plan.checked[i]) break;
        runs.as_state = is_state[n];
        fresh.add(std::move(runs));
      }
      origins.add_to(fresh, bits[n], is_state[n]);
      dependence = std::make_shared<const Dependence>(std::move(fresh));
    }
    if (!dependence->runs.empty()) batch.nodes[n]->own_errors().indices = dependence;
  }
}

}  // namespace volta::plan
