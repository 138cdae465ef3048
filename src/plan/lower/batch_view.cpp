// Views of a batch.
#include "plan/lower/batch_view.h"

#include <utility>

namespace volta::plan {

using graph::Node;

BatchView::BatchView(const graph::Batch& batch) : nodes_(batch.nodes) {
  leaves_.reserve(batch.leaves.size());
  for (const graph::Leaf& leaf : batch.leaves) leaves_.push_back(leaf.node);
  wanted_.reserve(nodes_.size());
  for (const Node* node : nodes_) wanted_.push_back(node->live ? Wanted::Held : Wanted::No);
  number_nodes();
}

BatchView::BatchView(std::span<Node* const> nodes, std::span<Node* const> leaves,
                     std::vector<Wanted> wanted, std::vector<bool> channels_last)
    : nodes_(nodes.begin(), nodes.end()),
      leaves_(leaves.begin(), leaves.end()),
      wanted_(std::move(wanted)),
      channels_last_(std::move(channels_last)) {
  number_nodes();
}

void BatchView::number_nodes() {
  numbers_.reserve(nodes_.size());
  leaf_numbers_.reserve(leaves_.size());
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    numbers_[nodes_[n]] = n;
    if (graph::checks_indices(nodes_[n]->op)) ++sites_;
  }
  for (std::uint32_t n = 0; n < leaves_.size(); ++n) leaf_numbers_[leaves_[n]] = n;
}

}  // namespace volta::plan
