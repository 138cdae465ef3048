// Views of a batch.
#include "plan/lower/batch_view.h"

namespace volta::plan {

using graph::Node;

BatchView::BatchView(const graph::Batch& batch) {
  nodes_.reserve(batch.nodes.size());
  wanted_.reserve(batch.nodes.size());
  leaves_.reserve(batch.leaves.size());
  numbers_.reserve(batch.nodes.size());
  leaf_numbers_.reserve(batch.leaves.size());
  for (const graph::Leaf& leaf : batch.leaves) add_leaf(leaf.node);
  for (Node* node : batch.nodes) add_node(node, node->live ? Wanted::Held : Wanted::No);
}

void BatchView::add_node(Node* node, Wanted wanted) {
  numbers_[node] = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back(node);
  wanted_.push_back(wanted);
  if (graph::checks_indices(node->op)) ++sites_;
}

void BatchView::add_leaf(Node* node) {
  if (leaf_numbers_.try_emplace(node, static_cast<std::uint32_t>(leaves_.size())).second)
    leaves_.push_back(node);
}

Node* BatchView::make_part(const Node& whole, const Node& result, std::span<Node* const> inputs,
                           std::span<const std::int64_t> attrs) {
  Part& part = parts_.emplace_back();
  part.inputs.assign(inputs.begin(), inputs.end());
  part.attrs.assign(attrs.begin(), attrs.end());
  Node& node = part.node;
  node.op = whole.op;
  node.dtype = result.dtype;
  node.shape = result.shape;
  node.entry = whole.entry;
  node.place = whole.place;
  node.epoch = whole.epoch;
  node.inputs = part.inputs.data();
  node.inputs_count = static_cast<std::uint32_t>(part.inputs.size());
  node.attrs = part.attrs.data();
  node.attrs_count = static_cast<std::uint8_t>(part.attrs.size());
  return &node;
}

}  // namespace volta::plan
