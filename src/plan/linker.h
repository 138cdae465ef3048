// Plans of batches that never repeat, put together from what was planned before: each stretch of a
// batch is planned once, and the plan of the batch is linked from the drafts of its stretches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

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

// Drafts of stretches by their keys; the least recently used is evicted first.
class StretchCache {
 public:
  // Null if the stretch is unknown.
  std::shared_ptr<const StretchDraft> find(const graph::Hash& key);
  void insert(const graph::Hash& key, std::shared_ptr<const StretchDraft> draft);
  std::size_t size() const { return entries_.size(); }
  // An estimate of the memory that the drafts take.
  std::uint64_t bytes() const { return bytes_; }
  void clear();

  static constexpr std::size_t kMaxEntries = 4096;
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{64} << 20;

 private:
  struct KeyHash {
    std::size_t operator()(const graph::Hash& key) const { return key.a; }
  };
  struct Entry {
    graph::Hash key;
    std::shared_ptr<const StretchDraft> draft;
    std::uint64_t bytes;
  };
  std::list<Entry> entries_;  // the last used one first
  std::uint64_t bytes_ = 0;
  std::unordered_map<graph::Hash, std::list<Entry>::iterator, KeyHash> by_key_;
};

// Plans a batch by its stretches. Those that are not in the cache are planned and put there.
std::unique_ptr<Plan> link_plan(const graph::Batch& batch, const Stretches& stretches,
                                const std::vector<bool>& donatable, const DeviceEntry& entry,
                                GroupingCache& groupings, StretchCache& cache,
                                Account* account = nullptr);

}  // namespace volta::plan
