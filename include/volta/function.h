// Operations of users.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "volta/tensor.h"

namespace volta {

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

}  // namespace volta
