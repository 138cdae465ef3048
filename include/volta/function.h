// Operations of users.
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
  // elementwise operations and of functions made earlier.
  std::string formula;
  // The gradient of each parameter, as long as there are some: over the parameters, the result `y`
  // and the result's gradient `g`. Without any, gradients follow from the formula.
  std::vector<std::string> gradients = {};
};

// An elementwise operation written as a formula:
//   const ScalarFunction softsign({.name = "softsign", .formula = "x / (1 + abs(x))",
//                                  .gradients = {"g / square(1 + abs(x))"}});
//   Tensor y = softsign(x);
// It runs on every device, fuses with what is around it and is one recorded operation. Arguments
// are tensors, which broadcast, or numbers. Make one and keep it: each lives as long as the
// process.
class VOLTA_API ScalarFunction {
 public:
  // Throws ArgumentError that shows where a formula goes wrong.
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

// What a function keeps from its forward for its backward.
class VOLTA_API FunctionContext {
 public:
  // Inputs, outputs and what is computed on the way.
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
  // Inputs to outputs. Runs without history: gradients flow by `backward` only.
  std::function<std::vector<Tensor>(FunctionContext&, const std::vector<Tensor>&)> forward = {};
  // Gradients of the outputs (undefined where none came) to gradients of the inputs (undefined
  // where none flows), written in tensor operations.
  std::function<std::vector<Tensor>(FunctionContext&, const std::vector<Tensor>&)> backward = {};
};

// A function with a gradient of its own:
//   const Function straight_through({
//       .name = "round_straight_through",
//       .forward = [](FunctionContext&, const auto& x) { return std::vector{x[0].round()}; },
//       .backward = [](FunctionContext&, const auto& g) { return g; }});
// f(x) of a function with one output is that output; f({x, ...}), a list of any length, gives all
// outputs in a vector.
class VOLTA_API Function {
 public:
  explicit Function(FunctionOptions options);
  Tensor operator()(const Tensor& input, Place place = Place::here()) const;
  std::vector<Tensor> operator()(std::initializer_list<Tensor> inputs,
                                 Place place = Place::here()) const {
    return (*this)(std::vector<Tensor>(inputs), place);
  }
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs,
                                 Place place = Place::here()) const;

 private:
  std::shared_ptr<const FunctionOptions> options_;
};

}  // namespace volta
