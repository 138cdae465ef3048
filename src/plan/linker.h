// Plans of batches that never repeat, put together from what was planned before: each stretch of a
// batch is planned once, and the plan of the batch is linked from the drafts of its stretches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/lru_cache.h"
#include "graph/record/recorder.h"
#include "plan/draft.h"
#include "plan/plan.h"
#include "plan/stretches.h"

namespace volta::plan {

// What is kept of a stretch.
struct StretchDraft {
  Draft draft;
  // Per step: the program text that decides which kernels of a list are merged; empty for others.
  std::vector<std::string> merging_texts;
  std::size_t bytes() const;
};

// Drafts of stretches by their keys.
using StretchCache = LruCache<graph::Hash, std::shared_ptr<const StretchDraft>, graph::HashOfHash,
                              4096, std::uint64_t{64} << 20>;

// Plans a batch by its stretches. Those that are not in the cache are planned and put there.
std::unique_ptr<Plan> link_plan(const graph::Batch& batch, const Stretches& stretches,
                                const std::vector<bool>& donatable, const DeviceEntry& entry,
                                GroupingCache& groupings, StretchCache& cache,
                                Account* account = nullptr);

}  // namespace volta::plan
