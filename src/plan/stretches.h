// Cuts a batch into stretches that are planned apart. Where it is cut depends only on nodes nearby,
// so equal parts of a program are cut alike wherever they stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "graph/record/recorder.h"

namespace volta::plan {

// A value that a stretch reads: a leaf of the batch, or a node that another stretch computes.
struct ValueRef {
  bool is_leaf = false;
  std::uint32_t number = 0;  // of the leaf, or as Stretches numbers nodes
};

// Nodes of a batch that are planned together: consecutive ones, or an element of a list.
struct Stretch {
  static constexpr std::uint32_t kNoNode = ~0u, kNoList = ~0u;

  std::span<graph::Node* const> nodes;
  // Per node: the number of the node whose value it computes for others; kNoNode if only the
  // stretch needs it, or if it repeats a view that another stretch computes.
  std::span<const std::uint32_t> computes;
  std::span<const ValueRef> leaves;
  // The numbers of its arguments and of its checked indices in the batch.
  std::span<const std::uint32_t> args, sites;
  // Of the nodes, and of how they read each other and the leaves.
  graph::Hash hash;
  // Elements of one list follow each other, and do not depend on each other.
  std::uint32_t list = kNoList;
};

// How many nodes stretches have. Between the two, the cut is where the fewest values cross.
struct StretchLength {
  std::size_t least, most;
};
// Long stretches fuse more. Short ones come again even in programs that put their operations
// together in a new order each time, such as trees.
inline constexpr StretchLength kLongStretches{16, 64}, kShortStretches{1, 2};

// The stretches of a batch. Nodes have their numbers in the batch; behind them come nodes that were
// not recorded, but stand for parts of recorded ones.
class Stretches {
 public:
  Stretches(const graph::Batch& batch, StretchLength length);
  Stretches(const Stretches&) = delete;
  Stretches& operator=(const Stretches&) = delete;

  const std::vector<Stretch>& all() const { return all_; }
  StretchLength length() const { return length_; }
  std::size_t node_count() const { return node_reader_.size(); }
  graph::Node& node(std::uint32_t number) const;
  graph::Node& node(ValueRef value) const {
    return value.is_leaf ? *batch_.leaves[value.number].node : node(value.number);
  }
  // The last stretch that reads the value; 0 if none does, as the first one reads only leaves.
  std::size_t last_reader(ValueRef value) const {
    return (value.is_leaf ? leaf_reader_ : node_reader_)[value.number];
  }

 private:
  friend class Cutter;
  const graph::Batch& batch_;
  StretchLength length_;
  std::vector<Stretch> all_;
  std::deque<graph::Node> made_;
  graph::Bump memory_;  // the inputs and attributes of nodes that were made
  std::vector<std::size_t> node_reader_, leaf_reader_;
  // What the spans of stretches refer to.
  std::vector<graph::Node*> nodes_;
  std::vector<std::uint32_t> computes_, args_, sites_;
  std::vector<ValueRef> leaves_;
};

}  // namespace volta::plan
