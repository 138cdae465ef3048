// Cuts a batch into stretches that are planned apart. Where it is cut depends only on nodes nearby,
// so equal parts of a program are cut alike wherever they stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "graph/record/recorder.h"
#include "plan/lower/batch_view.h"

namespace volta::plan {

// Nodes of a batch that are planned together: consecutive ones, or an element of a list.
struct Stretch {
  static constexpr std::size_t kNoList = ~std::size_t{0};

  BatchView view;
  // Per node of the view: the node of which it computes the value for others; null if it is
  // computed in another stretch as well (a view of what this one reads) or only here.
  std::vector<const graph::Node*> computes;
  std::vector<std::uint32_t> args, sites;  // those of the batch, in the order of the view
  graph::Hash hash;  // of the nodes, and of how they read each other and the leaves
  // Elements of one list do not depend on each other, and follow each other. Its first stretch.
  std::size_t list = kNoList;
};

struct Stretches {
  explicit Stretches(const graph::Batch& batch);
  Stretches(const Stretches&) = delete;
  Stretches& operator=(const Stretches&) = delete;

  std::vector<Stretch> all;
  // The last stretch that reads a value of another one, or a leaf.
  std::unordered_map<const graph::Node*, std::size_t> last_reader;
  // Nodes that were not recorded: what elements of a list leave to be joined.
  std::deque<graph::Node> made;
};

// After which nodes the consecutive nodes [first, end) are cut, in ascending order; the last one is
// end - 1. For tests.
VOLTA_BACKEND_API std::vector<std::size_t> cuts_of(const graph::Batch& batch, std::size_t first,
                                                   std::size_t end);

}  // namespace volta::plan
