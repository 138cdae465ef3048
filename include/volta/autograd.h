// Gradients: gradients of chosen tensors, of any order; switching recording on and off;
// recomputation instead of storage; finding NaNs; checks against finite differences.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "volta/detail/scope.h"
#include "volta/tensor.h"

namespace volta {

// While alive, operations of this thread record no history for gradients.
class VOLTA_API NoGrad : public Scope<bool> {
 public:
  NoGrad();
  ~NoGrad();
};
// While alive, operations of this thread record history for gradients, even inside a NoGrad.
class VOLTA_API EnableGrad : public Scope<bool> {
 public:
  EnableGrad();
  ~EnableGrad();
};
VOLTA_API bool grad_enabled();

struct GradOptions {
  // The gradients of the outputs, one per output. They may be omitted for outputs with one element.
  std::vector<Tensor> grad_outputs = {};
  bool create_graph = false;  // the gradients can themselves be differentiated
  std::optional<bool> retain_graph = std::nullopt;  // defaults to create_graph
  // Inputs that do not affect the outputs get undefined gradients instead of an error.
  bool allow_unused = false;
};
// Returns the gradients of the sum of the outputs with respect to the inputs, which may be leaves
// or results. No grad() is changed.
VOLTA_API std::vector<Tensor> grad(const std::vector<Tensor>& outputs,
                                   const std::vector<Tensor>& inputs, GradOptions options = {},
                                   SourceLocation place = SourceLocation::here());
inline std::vector<Tensor> grad(std::initializer_list<Tensor> outputs,
                                std::initializer_list<Tensor> inputs, GradOptions options = {},
                                SourceLocation place = SourceLocation::here()) {
  return grad(std::vector<Tensor>(outputs), std::vector<Tensor>(inputs), std::move(options), place);
}
VOLTA_API Tensor grad(const Tensor& output, const Tensor& input, GradOptions options = {},
                      SourceLocation place = SourceLocation::here());

// Calls fn now, and calls it again in the backward pass instead of storing the values that its
// gradient needs: less memory for more time. Both calls must do the same; they draw the same random
// numbers.
VOLTA_API std::vector<Tensor> checkpoint(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn,
    const std::vector<Tensor>& inputs);
VOLTA_API Tensor checkpoint(const std::function<Tensor(const Tensor&)>& fn, const Tensor& input);

// While alive, every operation of this thread is evaluated at its call. An operation that makes a
// NaN from inputs without NaN throws a NanError with its name and source location; in a backward
// pass the error also names the operation whose gradient is the first NaN. This is slow and meant
// for debugging.
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
  // Step of the finite differences; 0 means 1e-2 for f32, 1e-6 for f64, 1/8 for f16 and bf16.
  double eps = 0;
  // Largest error relative to max(1, |gradient|); 0 means 1e-3 for f32, 1e-7 for f64, 0.1 for f16
  // and bf16.
  double tol = 0;
};
struct CheckReport {
  bool passed = false;
  double worst = 0;     // the largest relative error; NaN if a gradient or a difference is NaN
  std::string message;  // describes the worst element: input, position, both values
};

// Compares the gradients of fn, reduced to a scalar with fixed random weights, with central
// differences. The defaults are those of the least precise input. fn may itself compute gradients,
// with create_graph if they are part of its result.
VOLTA_API CheckReport check_gradients(const std::function<Tensor(const Tensor&)>& fn,
                                      const Tensor& input, CheckOptions options = {});
VOLTA_API CheckReport check_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                                      const std::vector<Tensor>& inputs, CheckOptions options = {});

}  // namespace volta
