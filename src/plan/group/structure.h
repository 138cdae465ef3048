// The upper level of the plan key: what grouping depends on. Batches of one structure, such as a
// sequence that grows by one each step, share a grouping; only sizes and memory are worked out
// anew.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/segment.h"
#include "plan/grouping.h"
#include "plan/ir.h"

namespace volta::plan {

// Topology, dtypes and operations of the values, which of them are held, and of their dimensions:
// which are 0 or 1, which are equal, and their orders of magnitude.
graph::Hash structure_of(const std::vector<Value>& values, const std::vector<int>& outputs);

// Groupings by structure, the least recently used leaving first.
class GroupingCache {
 public:
  // The grouping for values of a structure seen before, with spaces of their own sizes; nothing
  // where there is none, or where it does not fit these sizes.
  std::optional<Grouping> find(const graph::Hash& structure, const std::vector<Value>& values);
  void insert(const graph::Hash& structure, Grouping grouping);
  std::size_t size() const { return entries_.size(); }

  static constexpr std::size_t kMaxEntries = 256;

 private:
  struct KeyHash {
    std::size_t operator()(const graph::Hash& hash) const { return hash.a; }
  };
  using Entry = std::pair<graph::Hash, Grouping>;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<graph::Hash, std::list<Entry>::iterator, KeyHash> by_structure_;
};

}  // namespace volta::plan
