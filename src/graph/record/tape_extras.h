// Parts that only few tape records need: gradient hooks, a retained gradient, a user's function,
// and values that are recomputed instead of saved.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/record/apply.h"
#include "graph/record/node.h"
#include "volta/execution.h"
#include "volta/function.h"

namespace volta {

namespace graph {

struct GradientHook {
  // Null once the hook is removed. A hook that is running stays alive until it returns.
  std::shared_ptr<const std::function<Tensor(const Tensor&)>> call;
};

struct GradientHooks {
  std::vector<std::shared_ptr<GradientHook>> hooks;
  void add(std::shared_ptr<GradientHook> hook);
  // The gradient after all hooks, in the order of their registration.
  Tensor run(Tensor gradient, const Shape& shape, DType dtype) const;
};

// One call of a Function.
struct CustomCall {
  explicit CustomCall(std::shared_ptr<const FunctionOptions> f) : function(std::move(f)) {}

  std::shared_ptr<const FunctionOptions> function;
  // Saved outputs are kept as nodes. As tensors they would own the record that owns them.
  struct Saved {
    Tensor tensor;
    Held node;
    std::int64_t output = -1;
  };
  std::vector<Saved> saved;
  std::vector<bool> needs;
  std::size_t outputs = 0;
  // The placement options of the call. Its gradient uses them too, since the saved values may be on
  // two devices.
  std::optional<ExecutionOptions> placement;

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs);
  // `tape` is the record of the call; `gradients` are those of its outputs.
  std::vector<Tensor> backward(Tape& tape, const std::vector<Tensor>& gradients, bool with_history);
};

// A checkpointed section of the program: its saved values are dropped and recomputed when they are
// first needed.
class Recompute;

struct TapeExtras {
  GradientHooks hooks;
  Variable* retains = nullptr;  // the result's variable, if it retains its gradient
  std::unique_ptr<CustomCall> custom;
  std::shared_ptr<Recompute> recompute;
  std::size_t number = 0;  // position among the records of `recompute`
  ~TapeExtras();
};
inline TapeExtras& extras_of(Tape& tape) {
  if (!tape.extras) tape.extras.reset(new TapeExtras);
  return *tape.extras;
}

// Restores the saved values of a record by recomputing its section.
void recompute(Tape& tape);

// While alive, collects the tape records that this thread makes, in order. Collectors nest.
class TapeCollector {
 public:
  TapeCollector();
  ~TapeCollector();
  TapeCollector(const TapeCollector&) = delete;
  TapeCollector& operator=(const TapeCollector&) = delete;
  std::vector<TapeRef> tapes;
  // When a section is recorded again: its first records, or null where one keeps its own values. A
  // new record also saves what the gradients that the first one leads to need, since tensors may
  // have been frozen in between.
  std::span<Tape* const> first = {};

 private:
  TapeCollector* outer_;
};

}  // namespace graph
}  // namespace volta
