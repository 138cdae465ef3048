// The structures of batches that a device has planned, and plans with open sizes for those that
// came with several sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/record/recorder.h"
#include "plan/plan.h"

namespace volta::plan {

// A structure is planned at its first sizes as if there were no others, so that a program whose
// steps repeat gets the plan for its sizes. When it comes with other sizes, those that differ are
// left open.
class Structures {
 public:
  // A plan for the batch without planning it, or null. If the structure has come with other sizes
  // before, but no open plan allows these, one is made.
  std::unique_ptr<Plan> plan_for(const graph::Batch& batch, const graph::Hash& structure,
                                 const std::vector<bool>& donatable, const DeviceEntry& entry,
                                 GroupingCache& groupings);
  // Whether the structure was planned as a whole before.
  bool knows(const graph::Hash& structure) const { return by_hash_.contains(structure); }
  std::size_t open_plans() const;
  // Plans that were made from an open plan so far.
  std::uint64_t resized() const { return resized_; }
  // The memory of all plans and sizes; at most kMaxBytes, or what the last used structure has.
  std::size_t bytes() const { return bytes_; }
  void clear();

 private:
  static constexpr std::size_t kMaxStructures = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 26;
  // Plans differ by what their guards demand: orders of magnitude, divisibility.
  static constexpr std::size_t kMaxPlans = 32;
  static constexpr std::size_t kMaxSizes = 4;  // batches from which a pattern is found
  struct Structure {
    std::vector<std::vector<std::int64_t>> sizes;  // of batches that no plan allowed
    std::vector<std::unique_ptr<OpenPlan>> plans;  // the last used one first
    std::size_t bytes() const;
  };
  struct HashOfHash {
    std::size_t operator()(const graph::Hash& hash) const { return hash.a; }
  };
  using Entry = std::pair<graph::Hash, Structure>;
  void evict();

  std::uint64_t resized_ = 0;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // the last used one first
  std::unordered_map<graph::Hash, std::list<Entry>::iterator, HashOfHash> by_hash_;
};

// Whether plans may have open sizes; for tests. On at first.
VOLTA_BACKEND_API void allow_open_sizes(bool allowed);

}  // namespace volta::plan
