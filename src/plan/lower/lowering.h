// Lowers recorded nodes to values. Expansions of composed operations (plan/expand) use a Lowering,
// which has the inputs, attributes and results of the node being lowered, and the builders.
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

// The values of a view. `expansion_of` tells the expansion of an operation; null for primitives.
Graph lower(const BatchView& view, const BatchSizes& sizes, const DeviceEntry& device,
            Expansion (*expansion_of)(graph::OpId));

class Lowering : public ValueBuilder {
 public:
  Lowering(Graph& graph, const BatchSizes& sizes, Expansion (*expansion_of)(graph::OpId));
  // Lowers all nodes of the graph's view into its values.
  void run();

  // ---- The node being lowered.
  graph::OpId op() const { return node_->op; }
  int inputs() const { return static_cast<int>(node_->inputs_count); }
  Expr in(std::size_t i);
  // The input as stored in memory: halves stay halves.
  Expr stored_in(std::size_t i) { return operand_of(i); }
  // The input before it was rounded to a half, if only this node reads it.
  Expr unrounded_in(std::size_t i);
  // The attributes as numbers; open ones are fixed.
  std::span<const std::int64_t> attrs() const;
  // The same, except that one attribute stays open and is only a hint.
  std::vector<std::int64_t> attrs_but(std::size_t open) const;
  std::span<const Extent> open_attrs() const { return sizes_.attrs(*node_); }
  Shape shape() const { return sizes_.shape(*node_); }
  DType dtype() const { return node_->dtype; }
  void out(Expr value) { out(0, value); }
  void out(std::size_t number, Expr value);
  int next_site() { return site_++; }
  // Whether products take values of this dtype without conversion, which is the case for halves.
  bool multiplies_halves(DType dtype) const;
  // Starts a phase. Phases share no values and no kernels and are computed one after the other,
  // each in the memory of the one before. They end with end_phases() or the end of the expansion.
  void begin_phase() { origin_.phase = ++phases_; }
  void end_phases() { origin_.phase = 0; }
  // A result without elements that still checks the (Bounded) indices.
  Expr checked_nothing(Expr indices);

  // Adds a loop to the graph; its number there.
  int add_loop(std::shared_ptr<const Loop> loop) {
    graph_.loops.push_back(std::move(loop));
    return static_cast<int>(graph_.loops.size()) - 1;
  }

  // ---- Layout of images.
  // Marks images [n, channels, height, width] that are best stored with channels last.
  void prefer_channels_last(Expr images) { graph_.channels_last.push_back(images.id); }
  // Whether the images are computed element by element from images that are stored in this way.
  bool has_channels_last(Expr images) const;

 private:
  void lower_node(graph::Node& node);
  void lower_primitive(graph::Node& node);
  Expr operand_of(std::size_t i);
  void count_readers();
  bool has_one_reader(const graph::Node& node) const;

  Graph& graph_;
  const BatchSizes& sizes_;
  Expansion (*expansion_of_)(graph::OpId);
  const BatchView* view_;
  std::vector<int> readers_;  // per node of the view: how many of its nodes read it
  graph::Node* node_ = nullptr;
  // The values of operations with several results.
  std::unordered_map<const graph::Node*, std::vector<ValueId>> results_;
  mutable std::vector<std::int64_t> fixed_attrs_;
  int arg_ = 0;  // number of argument words so far
  int site_ = 0;
  std::uint32_t phases_ = 0;
  std::vector<int> node_args_;  // for each input of the node, its argument number, or -1
};

}  // namespace volta::plan
