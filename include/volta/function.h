// User-defined operations.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "volta/tensor.h"

namespace volta {

namespace graph {
struct CustomCall;
}

struct ScalarFunctionOptions {
  std::string name = "function";  // in messages and in explain()
  std::string parameters = "x";   // "x, slope": what the formulas call the arguments
  // In C: numbers, the parameters, + - * /, comparisons, && || !, ?:, pi, inf, and calls of Volta's
  // elementwise operations and of functions made earlier. A part that is used several times can be
  // given a name first: "e = exp(x); e / (1 + e)".
  std::string formula;
  // One gradient per parameter, as expressions of the parameters, the result `y` and the result's
  // gradient `g`. If empty, gradients are derived from the formula.
  std::vector<std::string> gradients = {};
};

// An elementwise operation written as a formula:
//   const ScalarFunction softsign({.name = "softsign", .formula = "x / (1 + abs(x))",
//                                  .gradients = {"g / square(1 + abs(x))"}});
//   Tensor y = softsign(x);
// It runs on every device, fuses with the operations around it and is one recorded operation.
// Arguments are tensors, which broadcast, or numbers. Make a function once and keep it: each one
// lives as long as the process.
class VOLTA_API ScalarFunction {
 public:
  // Throws ArgumentError that shows the position of a mistake in a formula.
  explicit ScalarFunction(const ScalarFunctionOptions& options);

  Tensor operator()(const Operand& a) const { return call({&a, 1}); }
  Tensor operator()(const Operand& a, const Operand& b) const { return call({{a, b}}); }
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c) const {
    return call({{a, b, c}});
  }
  Tensor operator()(const Operand& a, const Operand& b, const Operand& c, const Operand& d) const {
    return call({{a, b, c, d}});
  }

 private:
  Tensor call(std::span<const Operand> arguments) const;
  Tensor call(std::initializer_list<Operand> arguments) const {
    return call(std::span(arguments.begin(), arguments.size()));
  }
  int op_;
};

// Values that a function keeps from its forward pass for its backward pass.
class VOLTA_API FunctionContext {
 public:
  // Saves inputs, outputs or intermediate results.
  void save(std::vector<Tensor> tensors) { saved_ = std::move(tensors); }
  const std::vector<Tensor>& saved() const { return saved_; }
  bool needs_gradient(std::size_t input) const { return input < needs_.size() && needs_[input]; }

 private:
  friend struct graph::CustomCall;
  std::vector<Tensor> saved_;
  std::vector<bool> needs_;
};

struct FunctionOptions {
  std::string name = "function";  // in messages
  // Maps inputs to outputs. It records no history: gradients flow through `backward` only.
  std::function<std::vector<Tensor>(FunctionContext&, const std::vector<Tensor>&)> forward = {};
  // Maps gradients of the outputs (undefined if there is none) to gradients of the inputs
  // (undefined if none flows), using tensor operations.
  std::function<std::vector<Tensor>(FunctionContext&, const std::vector<Tensor>&)> backward = {};
};

// A function with its own gradient:
//   const Function straight_through({
//       .name = "round_straight_through",
//       .forward = [](FunctionContext&, const auto& x) { return std::vector{x[0].round()}; },
//       .backward = [](FunctionContext&, const auto& g) { return g; }});
// For a function with one output f(x) returns that output; f({x, ...}) with any number of inputs
// returns a vector of all outputs.
class VOLTA_API Function {
 public:
  explicit Function(FunctionOptions options);
  Tensor operator()(const Tensor& input, SourceLocation place = SourceLocation::here()) const;
  std::vector<Tensor> operator()(std::initializer_list<Tensor> inputs,
                                 SourceLocation place = SourceLocation::here()) const {
    return (*this)(std::vector<Tensor>(inputs), place);
  }
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs,
                                 SourceLocation place = SourceLocation::here()) const;

 private:
  std::shared_ptr<const FunctionOptions> options_;
};

}  // namespace volta
