// The nodes that are planned together: all nodes of a batch, or a part of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "graph/record/recorder.h"

namespace volta::plan {

// Who needs the value of a node after the step that computes it, besides nodes of the same view.
enum class Wanted : std::uint8_t {
  No,
  Later,  // nodes of the batch that are planned apart read it
  Held,   // a handle or a tape record holds it
};

class BatchView {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  // All nodes and leaves of a batch.
  explicit BatchView(const graph::Batch& batch);
  // Nodes in recording order, all leaves that they read, per node who needs it, and per leaf
  // whether its channels, the axis 1, lie last in memory.
  BatchView(std::span<graph::Node* const> nodes, std::span<graph::Node* const> leaves,
            std::vector<Wanted> wanted, std::vector<bool> channels_last);
  BatchView(const BatchView&) = delete;
  BatchView& operator=(const BatchView&) = delete;

  std::span<graph::Node* const> nodes() const { return nodes_; }
  // Values that the nodes read and that are computed elsewhere: leaves of the batch, and nodes of
  // the batch that are not in the view.
  std::span<graph::Node* const> leaves() const { return leaves_; }
  // The position of a node or leaf, or kNone.
  std::uint32_t number(const graph::Node& node) const { return find(numbers_, node); }
  std::uint32_t leaf_number(const graph::Node& node) const { return find(leaf_numbers_, node); }
  Wanted wanted(std::size_t number) const { return wanted_[number]; }
  bool has_channels_last(std::size_t leaf) const {
    return !channels_last_.empty() && channels_last_[leaf];
  }
  // How many of the nodes check indices.
  std::size_t sites() const { return sites_; }

 private:
  using Numbers = std::unordered_map<const graph::Node*, std::uint32_t>;
  static std::uint32_t find(const Numbers& numbers, const graph::Node& node) {
    const auto found = numbers.find(&node);
    return found != numbers.end() ? found->second : kNone;
  }

  void number_nodes();

  std::vector<graph::Node*> nodes_, leaves_;
  std::vector<Wanted> wanted_;
  std::vector<bool> channels_last_;  // per leaf; empty: none
  Numbers numbers_, leaf_numbers_;
  std::size_t sites_ = 0;
};

}  // namespace volta::plan
