// Gradients: of chosen tensors, of any order; recording on and off; recomputing instead of keeping;
// finding NaNs; checking against finite differences.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "volta/scope.h"
#include "volta/tensor.h"

namespace volta {

// While alive, operations of this thread record no history.
class VOLTA_API NoGrad : public Scope<bool> {
 public:
  NoGrad();
  ~NoGrad();
};
// While alive, operations of this thread record history, also inside a NoGrad.
class VOLTA_API EnableGrad : public Scope<bool> {
 public:
  EnableGrad();
  ~EnableGrad();
};
VOLTA_API bool grad_enabled();

struct GradOptions {
  // One per output: the gradients to start from. May be left out where outputs have one element.
  std::vector<Tensor> grad_outputs = {};
  bool create_graph = false;                        // the gradients can be differentiated in turn
  std::optional<bool> retain_graph = std::nullopt;  // as create_graph unless set
  bool allow_unused = false;  // inputs that the outputs do not depend on: undefined, not an error
};
// The gradients of the sum of the outputs with respect to the inputs, leaves or results; nothing is
// added to any grad().
VOLTA_API std::vector<Tensor> grad(const std::vector<Tensor>& outputs,
                                   const std::vector<Tensor>& inputs, GradOptions options = {},
                                   Place place = Place::here());
inline std::vector<Tensor> grad(std::initializer_list<Tensor> outputs,
                                std::initializer_list<Tensor> inputs, GradOptions options = {},
                                Place place = Place::here()) {
  return grad(std::vector<Tensor>(outputs), std::vector<Tensor>(inputs), std::move(options), place);
}
VOLTA_API Tensor grad(const Tensor& output, const Tensor& input, GradOptions options = {},
                      Place place = Place::here());

// Calls fn now and, instead of keeping what its gradient needs, calls it again in the backward
// pass: less memory for more time. fn must do the same both times; random numbers are the same.
VOLTA_API std::vector<Tensor> checkpoint(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn,
    const std::vector<Tensor>& inputs);
VOLTA_API Tensor checkpoint(const std::function<Tensor(const Tensor&)>& fn, const Tensor& input);

// While alive, every operation of this thread is evaluated at its call, and one that makes a NaN of
// inputs without one throws NanError, which names it and its place; in a backward pass also the
// operation whose gradient is the first NaN. Slow: for finding mistakes.
class VOLTA_API AnomalyMode {
 public:
  AnomalyMode();
  ~AnomalyMode();
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct CheckOptions {
  // Step of the differences; 0: 1e-2 for f32, 1e-6 for f64, 1/8 for halves.
  double eps = 0;
  // Largest error, relative to max(1, |gradient|); 0: 1e-3 for f32, 1e-7 for f64, 0.1 for halves.
  double tol = 0;
};
struct CheckReport {
  bool passed = false;
  double worst = 0;     // the largest relative error; NaN where a gradient or a difference is
  std::string message;  // names the worst element: input, position, both values
};

// Compares the gradients of fn, reduced to a scalar with fixed random weights, with central
// differences. Defaults are those of the least precise input. fn may itself ask for gradients, with
// create_graph where they are part of its result.
VOLTA_API CheckReport check_gradients(const std::function<Tensor(const Tensor&)>& fn,
                                      const Tensor& input, CheckOptions options = {});
VOLTA_API CheckReport check_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                                      const std::vector<Tensor>& inputs, CheckOptions options = {});

}  // namespace volta
