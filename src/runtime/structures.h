// The structures of batches that a device has planned, and plans with open sizes for those that
// occurred with several sizes.
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

// A structure is first planned for the sizes of its first batch, so that a program whose steps
// repeat gets a plan for exactly its sizes. When it occurs with other sizes, the sizes that differ
// are left open.
class Structures {
 public:
  // Returns a plan for the batch without planning the batch alone, or null. If the structure has
  // occurred with other sizes and no open plan allows the current ones, an open plan is built.
  std::unique_ptr<Plan> plan_for(const graph::Batch& batch, const graph::Hash& structure,
                                 const std::vector<bool>& donatable, const DeviceEntry& entry,
                                 GroupingCache& groupings);
  // Whether the structure was planned as a whole before.
  bool knows(const graph::Hash& structure) const { return by_hash_.contains(structure); }
  std::size_t open_plans() const;
  // The number of plans made from open plans so far.
  std::uint64_t resized() const { return resized_; }
  // The memory of all plans and sizes; at most kMaxBytes, or that of the most recently used
  // structure.
  std::size_t bytes() const { return bytes_; }
  void clear();

 private:
  static constexpr std::size_t kMaxStructures = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 26;
  // Plans of a structure differ in their guards, such as orders of magnitude and divisibility.
  static constexpr std::size_t kMaxPlans = 32;
  static constexpr std::size_t kMaxSizes = 4;  // batches from which a pattern is derived
  struct Structure {
    std::vector<std::vector<std::int64_t>> sizes;  // of batches that no plan allowed
    std::vector<std::unique_ptr<OpenPlan>> plans;  // most recently used first
    std::size_t bytes() const;
  };
  using Entry = std::pair<graph::Hash, Structure>;
  void evict();

  std::uint64_t resized_ = 0;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<graph::Hash, std::list<Entry>::iterator, graph::HashOfHash> by_hash_;
};

// Sets whether plans may have open sizes, which is the default. For tests.
VOLTA_BACKEND_API void allow_open_sizes(bool allowed);

}  // namespace volta::plan
