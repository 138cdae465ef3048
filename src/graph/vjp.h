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
  // `consumes`: the record will not be asked again, so what it saved is taken from it.
  Vjp(Tape& tape, Tensor gradient, bool consumes)
      : tape_(tape), gradient_(std::move(gradient)), consumes_(consumes) {
    handles_.reserve(tape.edges.size() + 1 + tape.auxiliary.size());  // none of them moves
  }

  OpId op() const { return tape_.op; }
  const Tensor& gradient() const { return gradient_; }
  int inputs() const { return static_cast<int>(tape_.edges.size()); }
  // Saved values; only what the operation's row saves.
  const Tensor& input(int i) { return handle(tape_.saved[static_cast<std::size_t>(i)]); }
  const Tensor& output() { return handle(tape_.output); }
  const Tensor& auxiliary(int i) { return handle(tape_.auxiliary[static_cast<std::size_t>(i)]); }
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
  struct Result {
    std::size_t input;
    Tensor gradient;
  };
  // Once per input. Gradients may have the broadcast shape: they are summed back to the input's.
  void give(int input, Tensor gradient) {
    results_.emplace_back(static_cast<std::size_t>(input), std::move(gradient));
  }
  InlineVector<Result, 4>& results() { return results_; }

 private:
  // A saved value as a tensor.
  struct Handle {
    const Held* saved;
    Tensor tensor;
  };
  const Tensor& handle(Held& saved) {
    for (const Handle& made : handles_) {
      if (made.saved == &saved) return made.tensor;
    }
    return handles_.emplace_back(&saved, TensorAccess::make(consumes_ ? std::move(saved) : saved))
        .tensor;
  }

  Tape& tape_;
  Tensor gradient_;
  bool consumes_;
  InlineVector<Result, 4> results_;
  InlineVector<Handle, 8> handles_;
};

}  // namespace volta::graph
