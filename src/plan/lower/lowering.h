// From recorded nodes to values. Expansions of composed operations (plan/expand) write with a
// Lowering: it has the inputs, attributes and results of the node being lowered, and the builders.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/lower/batch_sizes.h"
#include "plan/lower/builder.h"

namespace volta::plan {

class Lowering;

// Builds the values of a composed operation, the node being lowered, out of primitives.
using Expansion = void (*)(Lowering&);

// The values of a batch. `expansion_of` tells the expansion of an operation; null for primitives.
Graph lower(const graph::Batch& batch, const BatchSizes& sizes, const DeviceEntry& device,
            Expansion (*expansion_of)(graph::OpId));

class Lowering : public ValueBuilder {
 public:
  Lowering(Graph& graph, const BatchSizes& sizes, Expansion (*expansion_of)(graph::OpId));
  // Lowers all nodes of the graph's batch into its values.
  void run();

  // ---- The node being lowered.
  graph::OpId op() const { return node_->op; }
  int inputs() const { return static_cast<int>(node_->inputs_count); }
  Expr in(int i);
  // The input as it lies in memory: halves stay halves.
  Expr stored_in(int i) { return operand_of(i); }
  // The input as it was before it was rounded to a half, where nobody but this node reads it.
  Expr unrounded_in(int i);
  // The attributes as numbers: open ones are fixed.
  std::span<const std::int64_t> attrs() const;
  // The same, but for one that stays open and is only its hint.
  std::vector<std::int64_t> attrs_but(std::size_t open) const;
  std::span<const Extent> open_attrs() const { return sizes_.attrs(*node_); }
  Shape shape() const { return sizes_.shape(*node_); }
  DType dtype() const { return node_->dtype; }
  void out(Expr value) { out(0, value); }
  void out(int number, Expr value);
  int next_site() { return site_++; }
  // Whether products take values of this dtype as they are: halves, that is.
  bool multiplies_halves(DType dtype) const;
  // What is built from here on is computed by itself, in the memory of the phase before: phases
  // share no values and no kernels. Until end_phases() or the end of the expansion.
  void begin_phase() { origin_.phase = ++phases_; }
  void end_phases() { origin_.phase = 0; }
  // A result without elements for which the indices (Bounded) are looked at all the same.
  Expr checked_nothing(Expr indices);

  // Adds a loop to the graph; its number there.
  int add_loop(std::shared_ptr<const Loop> loop) {
    graph_.loops.push_back(std::move(loop));
    return static_cast<int>(graph_.loops.size()) - 1;
  }

  // ---- Layout of images.
  // Images [n, channels, height, width] that had better lie in memory with their channels last.
  void prefer_channels_last(Expr images) { graph_.channels_last.push_back(images.id); }
  // Whether they are computed, element by element, from images that lie so.
  bool has_channels_last(Expr images) const;

 private:
  void lower_node(graph::Node& node);
  void lower_primitive(graph::Node& node);
  Expr operand_of(int i);
  void count_readers();
  bool is_of_batch(const graph::Node& node) const;
  bool has_one_reader(const graph::Node& node) const;

  Graph& graph_;
  const BatchSizes& sizes_;
  Expansion (*expansion_of_)(graph::OpId);
  const graph::Batch* batch_;
  std::vector<int> readers_;  // per node of the batch: how many of its nodes read it
  graph::Node* node_ = nullptr;
  // Of operations with several results: their values.
  std::unordered_map<const graph::Node*, std::vector<ValueId>> results_;
  mutable std::vector<std::int64_t> fixed_attrs_;
  int arg_ = 0;  // argument words seen so far
  int site_ = 0;
  std::uint32_t phases_ = 0;
  std::vector<int> node_args_;  // argument number per input of the node, -1 where none
};

}  // namespace volta::plan
