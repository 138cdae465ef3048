// The arguments of a gradient rule: the gradient of the output, the saved values of the record, and
// a place for the results.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graph/autograd/pass_records.h"
#include "graph/record/apply.h"
#include "graph/record/node.h"
#include "volta/tensor.h"

namespace volta::graph {

using WantsEdge = std::function<bool(const Edge&)>;

class Vjp {
 public:
  struct Options {
    bool consumes;           // the record is used once, so its saved values are moved out
    bool history;            // gradients of gradients are required
    const WantsEdge* wants;  // whether an edge's gradient is required; null: all are
  };
  Vjp(Tape& tape, Tensor gradient, PassRecords& records, Options options)
      : tape_(tape), gradient_(std::move(gradient)), records_(records), options_(options) {
    handles_.reserve(tape.edges.size() + 1 + tape.auxiliary.size());  // handles must not move
  }

  // From here on, f16 and bf16 values are converted to f32, so that a rule of several steps rounds
  // once, at its end, as its operation does.
  void widen() {
    wide_ = true;
    widen(gradient_);
  }

  OpId op() const { return tape_.op; }
  const Tensor& gradient() const { return gradient_; }
  int inputs() const { return static_cast<int>(tape_.edges.size()); }
  // Saved values, which the operation's row lists for the required gradients (needs). If gradients
  // of gradients are required, inputs and the output have their history.
  const Tensor& input(int i) {
    return handle(tape_.saved[static_cast<std::size_t>(i)],
                  &tape_.edges[static_cast<std::size_t>(i)]);
  }
  const Tensor& output() { return handle(tape_.output, nullptr); }
  // Auxiliary outputs have no history. A rule that needs one (with_history()) recomputes the value
  // from the inputs.
  const Tensor& auxiliary(int i) {
    return handle(tape_.auxiliary[static_cast<std::size_t>(i)], nullptr);
  }
  bool with_history() const { return options_.history; }
  // Whether the pass adds to the gradients of leaves, as backward() does, rather than returning
  // gradients to the caller.
  bool gives_leaves() const { return options_.wants == nullptr; }
  Tape& tape() { return tape_; }
  PassRecords& records() { return records_; }
  const Shape& shape(int input) const { return tape_.edges[static_cast<std::size_t>(input)].shape; }
  DType dtype(int input) const { return tape_.edges[static_cast<std::size_t>(input)].dtype; }
  Device device(int input) const { return tape_.edges[static_cast<std::size_t>(input)].device; }
  const Shape& output_shape() const { return tape_.shape; }
  std::span<const std::int64_t> attrs() const { return tape_.attrs.span(); }
  std::int64_t attr(int i) const { return tape_.attrs[static_cast<std::size_t>(i)]; }
  SourceLocation place() const { return tape_.place; }

  bool needs(int input) const {
    const Edge& edge = tape_.edges[static_cast<std::size_t>(input)];
    return (edge.tape || edge.leaf.defined()) &&
           (options_.wants == nullptr || (*options_.wants)(edge));
  }
  struct Result {
    std::size_t input;
    Tensor gradient;
  };
  // Call at most once per input. The gradient may have the broadcast shape; it is then summed to
  // the input's shape.
  void give(int input, Tensor gradient) {
    results_.emplace_back(static_cast<std::size_t>(input), std::move(gradient));
  }
  InlineVector<Result, 4>& results() { return results_; }

 private:
  // A saved value as a tensor.
  struct Handle {
    const Held* saved;
    Tensor tensor = {};
  };
  const Tensor& handle(Held& saved, const Edge* edge) {
    for (const Handle& made : handles_) {
      if (made.saved == &saved) return made.tensor;
    }
    Handle& made = handles_.emplace_back(&saved);
    if (options_.history) [[unlikely]] {
      made.tensor = historic(saved, edge);
    } else if (options_.consumes) {
      made.tensor = TensorAccess::make(std::move(saved));
    } else {
      made.tensor = TensorAccess::make(saved);
    }
    if (wide_) widen(made.tensor);
    return made.tensor;
  }
  void widen(Tensor& value) const {
    const DType dtype = node_of(value)->dtype;
    if (dtype == DType::f16 || dtype == DType::bf16) value = value.to(DType::f32, place());
  }
  // A saved value with its history: the result of this record, or the value that the edge leads to.
  Tensor historic(const Held& saved, const Edge* edge);

  Tape& tape_;
  Tensor gradient_;
  PassRecords& records_;
  const Options options_;
  bool wide_ = false;
  InlineVector<Result, 4> results_;
  InlineVector<Handle, 8> handles_;
};

}  // namespace volta::graph
