// Decides which batches are linked.
#include "runtime/linking.h"

#include <atomic>
#include <utility>

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

// Whether a batch is linked that consists of known stretches.
bool links(const LinkHistory& history, const graph::Hash& structure, std::uint32_t unknown) {
  const Linking when = linking.load(std::memory_order_relaxed);
  if (when != Linking::WhereStepsVary) return when != Linking::Never;
  return unknown > kUnknownInARow && history.structures.of(structure) < kMostLinks;
}

// The stretches of a batch by which it is familiar, or those that a test asks for.
struct Cut {
  std::unique_ptr<Stretches> by_long, by_short;
  std::unique_ptr<Stretches>* familiar = nullptr;  // one of them

  Cut(const LinkHistory& history, const graph::Batch& batch)
      : by_long(std::make_unique<Stretches>(batch, kLongStretches)) {
    const Linking when = linking.load(std::memory_order_relaxed);
    if (when == Linking::Always ||
        (when != Linking::AlwaysShort && is_familiar(history, *by_long))) {
      familiar = &by_long;
      return;
    }
    by_short = std::make_unique<Stretches>(batch, kShortStretches);
    if (when == Linking::AlwaysShort || is_familiar(history, *by_short)) familiar = &by_short;
  }
};

}  // namespace

void set_linking(Linking value) { linking.store(value, std::memory_order_relaxed); }

bool may_be_linked(const graph::Batch& batch) {
  return batch.nodes.size() >= kLeastLinkedNodes ||
         linking.load(std::memory_order_relaxed) >= Linking::Always;
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

std::unique_ptr<Stretches> note_unknown(graph::Familiarity& familiarity, LinkHistory& history,
                                        const graph::Hash& structure, const graph::Batch& batch) {
  Cut cut(history, batch);
  familiarity.known = 0;
  familiarity.unknown = cut.familiar != nullptr ? familiarity.unknown + 1 : 0;
  for (const auto* stretches : {&cut.by_long, &cut.by_short}) {
    if (*stretches == nullptr) continue;
    for (const Stretch& stretch : (*stretches)->all()) history.stretches.note(stretch.hash);
  }
  if (cut.familiar == nullptr || !links(history, structure, familiarity.unknown)) return nullptr;
  return std::move(*cut.familiar);
}

std::unique_ptr<Stretches> would_be_linked(const graph::Familiarity& familiarity,
                                           const LinkHistory& history, const graph::Hash& structure,
                                           const graph::Batch& batch) {
  Cut cut(history, batch);
  if (cut.familiar == nullptr || !links(history, structure, familiarity.unknown + 1))
    return nullptr;
  return std::move(*cut.familiar);
}

}  // namespace volta::plan
