// What few tape records have: hooks on the gradient, a gradient to be kept, a user's function,
// values that are computed again instead of kept.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/apply.h"
#include "graph/node.h"
#include "volta/execution.h"
#include "volta/function.h"

namespace volta {

namespace graph {

struct GradientHook {
  // Null: removed. A hook that is running stays until it returns.
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
  // Saved outputs are kept as nodes: as tensors they would hold the record that holds them.
  struct Saved {
    Tensor tensor;
    Held node;
    std::int64_t output = -1;
  };
  std::vector<Saved> saved;
  std::vector<bool> needs;
  std::size_t outputs = 0;
  // Where the call's operations were placed: its gradient's are placed likewise, since what it has
  // saved may be on two devices.
  std::optional<ExecutionOptions> placement;

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs);
  // `tape` is the call's record, `gradients` are its outputs'.
  std::vector<Tensor> backward(Tape& tape, const std::vector<Tensor>& gradients, bool with_history);
};

// A stretch of the program whose saved values are dropped and computed again when first needed.
class Recompute;

struct TapeExtras {
  GradientHooks hooks;
  Variable* retains = nullptr;  // the result's variable, if it keeps its gradient
  std::unique_ptr<CustomCall> custom;
  std::shared_ptr<Recompute> recompute;
  std::size_t number = 0;  // among the records of `recompute`
  ~TapeExtras();
};
inline TapeExtras& extras_of(Tape& tape) {
  if (!tape.extras) tape.extras.reset(new TapeExtras);
  return *tape.extras;
}

// Gives a record its saved values back.
void recompute(Tape& tape);

// Records made by this thread from here on, in order, until it ends; nests.
class TapeCollector {
 public:
  TapeCollector();
  ~TapeCollector();
  TapeCollector(const TapeCollector&) = delete;
  TapeCollector& operator=(const TapeCollector&) = delete;
  std::vector<TapeRef> tapes;

 private:
  TapeCollector* outer_;
};

}  // namespace graph
}  // namespace volta
