// What a gradient rule sees: the gradient of the output, what the record saved, and where to put
// results.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/node.h"
#include "volta/tensor.h"

namespace volta::graph {

class Vjp {
 public:
  Vjp(const Tape& tape, Tensor gradient) : tape_(tape), gradient_(std::move(gradient)) {
    results_.resize(tape.edges.size());
  }

  const Tensor& gradient() const { return gradient_; }
  int inputs() const { return static_cast<int>(tape_.edges.size()); }
  // Saved values; only what the operation's row saves.
  Tensor input(int i) const {
    return TensorAccess::from_node(tape_.saved[static_cast<std::size_t>(i)].get());
  }
  Tensor output() const { return TensorAccess::from_node(tape_.output.get()); }
  Tensor auxiliary(int i) const {
    return TensorAccess::from_node(tape_.auxiliary[static_cast<std::size_t>(i)].get());
  }
  const Shape& shape(int input) const { return tape_.edges[static_cast<std::size_t>(input)].shape; }
  DType dtype(int input) const { return tape_.edges[static_cast<std::size_t>(input)].dtype; }
  Device device(int input) const { return tape_.edges[static_cast<std::size_t>(input)].device; }
  const Shape& output_shape() const { return tape_.shape; }
  std::span<const std::int64_t> attrs() const { return tape_.attrs.span(); }
  std::int64_t attr(int i) const { return tape_.attrs[static_cast<std::size_t>(i)]; }
  Place place() const { return tape_.place; }

  bool needs(int input) const {
    const Edge& edge = tape_.edges[static_cast<std::size_t>(input)];
    return edge.tape || edge.leaf.defined();
  }
  // Gradients may have the broadcast shape: they are summed back to the input's.
  void give(int input, Tensor gradient) {
    results_[static_cast<std::size_t>(input)] = std::move(gradient);
  }
  InlineVector<Tensor, 4>& results() { return results_; }

 private:
  const Tape& tape_;
  Tensor gradient_;
  InlineVector<Tensor, 4> results_;
};

}  // namespace volta::graph
