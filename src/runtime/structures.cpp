// Finds or builds plans with open sizes.
#include "runtime/structures.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/counting.h"

namespace volta::plan {
namespace {

std::atomic<bool> allowed{true};

}  // namespace

void allow_open_sizes(bool value) { allowed.store(value, std::memory_order_relaxed); }

std::unique_ptr<Plan> Structures::plan_for(const graph::Batch& batch, const graph::Hash& hash,
                                           const std::vector<bool>& donatable,
                                           const DeviceEntry& entry, GroupingCache& groupings) {
  if (!allowed.load(std::memory_order_relaxed)) return nullptr;
  const auto known = by_hash_.find(hash);
  if (known != by_hash_.end()) {
    entries_.splice(entries_.begin(), entries_, known->second);
  } else {
    entries_.emplace_front(hash, Structure());
    by_hash_[hash] = entries_.begin();
  }
  evict();
  Structure& structure = entries_.front().second;
  std::vector<std::int64_t> sizes = sizes_of(batch);
  for (std::size_t n = 0; n < structure.plans.size(); ++n) {
    std::unique_ptr<Plan> plan = structure.plans[n]->plan_for(sizes);
    if (plan == nullptr) continue;
    std::rotate(structure.plans.begin(), structure.plans.begin() + static_cast<std::ptrdiff_t>(n),
                structure.plans.begin() + static_cast<std::ptrdiff_t>(n) + 1);
    ++resized_;
    return plan;
  }
  bytes_ -= structure.bytes();
  structure.sizes.push_back(std::move(sizes));
  if (structure.sizes.size() > kMaxSizes) structure.sizes.erase(structure.sizes.begin());
  bytes_ += structure.bytes();
  if (structure.sizes.size() < 2) return nullptr;
  SizePattern pattern = SizePattern::of(structure.sizes);
  if (!pattern.is_open()) return nullptr;
  auto open = build_open_plan(batch, std::move(pattern), donatable, entry, groupings);
  count(live_counters().plans_built);
  std::unique_ptr<Plan> plan = open->plan_for(structure.sizes.back());
  bytes_ -= structure.bytes();
  structure.plans.insert(structure.plans.begin(), std::move(open));
  if (structure.plans.size() > kMaxPlans) structure.plans.pop_back();
  bytes_ += structure.bytes();
  return plan;
}

std::size_t Structures::open_plans() const {
  std::size_t plans = 0;
  for (const auto& [hash, structure] : entries_) plans += structure.plans.size();
  return plans;
}

std::size_t Structures::Structure::bytes() const {
  std::size_t bytes = 0;
  for (const auto& list : sizes) bytes += list.capacity() * sizeof(std::int64_t);
  for (const auto& plan : plans) bytes += plan->bytes();
  return bytes;
}

// The most recently used structure stays, whatever its size.
void Structures::evict() {
  while (entries_.size() > 1 && (entries_.size() > kMaxStructures || bytes_ > kMaxBytes)) {
    bytes_ -= entries_.back().second.bytes();
    by_hash_.erase(entries_.back().first);
    entries_.pop_back();
  }
}

void Structures::clear() {
  by_hash_.clear();
  entries_.clear();
  bytes_ = 0;
}

}  // namespace volta::plan
