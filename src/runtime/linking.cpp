// Decides which batches are linked.
#include "runtime/linking.h"

#include <atomic>

namespace volta::plan {
namespace {

std::atomic<Linking> linking{Linking::WhereStepsVary};

// Whether most of the nodes are in stretches that came in earlier batches.
bool is_familiar(const LinkHistory& history, const Stretches& stretches) {
  std::size_t nodes = 0, known = 0;
  for (const Stretch& stretch : stretches.all()) {
    nodes += stretch.nodes.size();
    if (history.stretches.of(stretch.hash) > 0) known += stretch.nodes.size();
  }
  return 2 * known > nodes;
}

bool links(const LinkHistory& history, const graph::Hash& structure, std::uint32_t unknown) {
  const Linking when = linking.load(std::memory_order_relaxed);
  if (when != Linking::WhereStepsVary) return when == Linking::Always;
  return unknown > kUnknownInARow && history.structures.of(structure) < kMostLinks;
}

}  // namespace

void set_linking(Linking value) { linking.store(value, std::memory_order_relaxed); }

bool may_be_linked(const graph::Batch& batch) {
  return batch.nodes.size() >= kLeastLinkedNodes ||
         linking.load(std::memory_order_relaxed) == Linking::Always;
}

std::uint32_t Occurrences::of(const graph::Hash& hash) const {
  const auto found = times_.find(hash);
  return found != times_.end() ? found->second : 0;
}

void Occurrences::note(const graph::Hash& hash) {
  if (++times_[hash] > 1) return;
  order_.push_back(hash);
  if (order_.size() <= most_) return;
  times_.erase(order_.front());
  order_.pop_front();
}

void Occurrences::clear() {
  times_.clear();
  order_.clear();
}

void note_known(graph::Familiarity& familiarity, const graph::Batch& batch) {
  if (batch.nodes.size() < kLeastLinkedNodes) return;
  if (++familiarity.known >= kKnownInARow || familiarity.unknown <= kUnknownInARow)
    familiarity.unknown = 0;
}

bool note_unknown(graph::Familiarity& familiarity, LinkHistory& history,
                  const graph::Hash& structure, const Stretches& stretches) {
  familiarity.known = 0;
  familiarity.unknown = is_familiar(history, stretches) ? familiarity.unknown + 1 : 0;
  for (const Stretch& stretch : stretches.all()) history.stretches.note(stretch.hash);
  return links(history, structure, familiarity.unknown);
}

bool would_be_linked(const graph::Familiarity& familiarity, const LinkHistory& history,
                     const graph::Hash& structure, const Stretches& stretches) {
  return links(history, structure, is_familiar(history, stretches) ? familiarity.unknown + 1 : 0);
}

}  // namespace volta::plan
