// The structure of a batch: everything that its grouping depends on. Batches of one structure, such
// as a sequence that grows by one in each step, share a grouping; only sizes and memory are
// computed again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/lru_cache.h"
#include "graph/record/recorder.h"
#include "plan/group/grouping.h"
#include "plan/lower/ir.h"

namespace volta::plan {

// A hash of the topology, dtypes and operations of the values and of the set of outputs. Dimensions
// are distinguished by whether they are 0 or 1 or equal to others, and by their order of magnitude.
graph::Hash structure_of(const Values& values, const std::vector<int>& outputs);

// Computes the groups' spaces for the sizes of `values`; false if some group cannot be one kernel
// at these sizes.
bool lay_out(const Values& values, Grouping& grouping);

// Groupings by structure.
class GroupingCache {
 public:
  // Returns the cached grouping of a structure with spaces adapted to the sizes of `values`;
  // nothing if there is none or if it does not fit these sizes.
  std::optional<Grouping> find(const graph::Hash& structure, const Values& values);
  // Adds a grouping, or replaces one that did not fit.
  void insert(const graph::Hash& structure, Grouping grouping);
  std::size_t size() const { return groupings_.size(); }
  // An estimate of the memory that the groupings take.
  std::uint64_t bytes() const { return groupings_.bytes(); }
  void clear() { groupings_.clear(); }

  static constexpr std::size_t kMaxEntries = 256;

 private:
  LruCache<graph::Hash, Grouping, graph::HashOfHash, kMaxEntries, std::uint64_t{32} << 20>
      groupings_;
};

}  // namespace volta::plan
