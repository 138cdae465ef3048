// Decides which batches are linked.
#include "runtime/linking.h"

#include <atomic>

#include "runtime/device_runtime.h"

namespace volta::plan {
namespace {

std::atomic<Linking> linking{Linking::WhereStepsVary};

}  // namespace

void set_linking(Linking value) { linking.store(value, std::memory_order_relaxed); }

std::uint32_t LinkedStructures::times(const graph::Hash& structure) const {
  const auto found = times_.find(structure);
  return found != times_.end() ? found->second : 0;
}

void LinkedStructures::note(const graph::Hash& structure) {
  if (++times_[structure] > 1) return;
  order_.push_back(structure);
  if (order_.size() <= kMost) return;
  times_.erase(order_.front());
  order_.pop_front();
}

void LinkedStructures::clear() {
  times_.clear();
  order_.clear();
}

bool is_to_be_linked(const DeviceRuntime& runtime, const graph::Familiarity& familiarity,
                     const graph::Batch& batch, const graph::Hash& structure) {
  const Linking when = linking.load(std::memory_order_relaxed);
  if (when != Linking::WhereStepsVary) return when == Linking::Always;
  return familiarity.varies && batch.nodes.size() >= kLeastLinkedNodes &&
         !runtime.structures.knows(structure) && runtime.linked.times(structure) < kMostLinks;
}

void note_batch(graph::Familiarity& familiarity, const graph::Batch& batch, bool is_known) {
  if (batch.nodes.size() < kLeastLinkedNodes) return;
  if (is_known) {
    familiarity.unknown = 0;
    if (++familiarity.known >= kKnownInARow) familiarity.varies = false;
  } else {
    familiarity.known = 0;
    if (++familiarity.unknown >= kUnknownInARow) familiarity.varies = true;
  }
}

}  // namespace volta::plan
