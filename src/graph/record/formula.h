// Scalar formulas written as C expressions: "x > 0 ? x : slope * x". One text serves the kernels
// (evaluated on the planner's values), gradients of any order (evaluated on tensors) and the
// documentation. A formula has numbers, names, + - * /, comparisons, && || !, ?:, and calls of
// scalar operations and other formulas. It may begin with definitions: "a = abs(x); a / (1 + a)".
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/record/op.h"
#include "kernel/program.h"
#include "volta/tensor.h"

namespace volta::graph {

// A parsed formula: a list of instructions, each of which refers to earlier ones.
class Formula {
 public:
  // Throws ArgumentError that shows the position of the mistake. `what` begins the message.
  Formula(std::string_view what, std::string_view text, const std::vector<std::string>& names);

  struct Step {
    enum class Kind : std::uint8_t { Number, Name, Op };
    Kind kind;
    kernel::ScalarOp op = kernel::ScalarOp::add;
    std::array<int, 3> in{-1, -1, -1};
    double number = 0;
    int name = -1;
    bool truth = false;  // a condition rather than a number
  };
  const std::vector<Step>& steps() const { return steps_; }  // the last step is the result
  bool gives_truth() const { return steps_.back().truth; }
  bool mentions(int name) const;
  // The value of a formula that is constant, whatever its parameters.
  std::optional<double> number() const;
  // Whether the formula cannot be computed in integers: it divides, has a fraction, or calls an
  // operation that only floats have.
  bool needs_floats() const;

  // `algebra` has number(double), name(int) and op(ScalarOp, array of values).
  template <class Value, class Algebra>
  Value evaluate(Algebra&& algebra) const {
    std::vector<Value> values;
    values.reserve(steps_.size());
    for (const Step& step : steps_) {
      switch (step.kind) {
        case Step::Kind::Number:
          values.push_back(algebra.number(step.number));
          break;
        case Step::Kind::Name:
          values.push_back(algebra.name(step.name));
          break;
        case Step::Kind::Op: {
          std::array<Value, 3> in;
          for (std::size_t i = 0; i < in.size(); ++i) {
            if (step.in[i] >= 0) in[i] = values[static_cast<std::size_t>(step.in[i])];
          }
          values.push_back(algebra.op(step.op, in));
          break;
        }
      }
    }
    return values.back();
  }

 private:
  friend class FormulaParser;
  std::vector<Step> steps_;
};

// The texts of an operation: its parameters, its value, and the gradients of its first parameters.
// Gradients are written in the parameters, the result `y` and the gradient `g` of the result.
struct FormulaText {
  const char* parameters = "x";
  const char* value = "";
  std::array<const char*, 4> gradients{};  // null from the first parameter without gradient on
};

// Whether a text uses a name.
constexpr bool mentions(std::string_view text, std::string_view name) {
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end])))
      return true;
  }
  return false;
}

// Splits "x, slope" into names.
std::vector<std::string> parameter_names(std::string_view parameters);

// The values that the gradients of a formula use.
constexpr SavesByInput saves_of(const FormulaText& text) {
  SavesByInput all;
  for (std::size_t i = 0; i < text.gradients.size(); ++i) {
    const char* const gradient = text.gradients[i];
    if (gradient == nullptr) continue;
    std::uint32_t& saves = all.by_input[i];
    if (mentions(gradient, "y")) saves |= kSavesOutput;
    std::uint32_t bit = 1;
    std::string_view rest = text.parameters;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      if (mentions(gradient, rest.substr(0, comma))) saves |= bit;
      bit <<= 1;
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    }
  }
  return all;
}

// The parsed texts of an operation.
struct ParsedFormula {
  ParsedFormula(const char* name, const FormulaText& text);
  std::vector<std::string> names;  // parameters, then y, then g
  Formula value;
  std::vector<Formula> gradients;  // of the first parameters, in order
  // For each gradient, the names that it uses besides g: the inputs of the node that computes it,
  // in order.
  std::vector<std::vector<int>> uses;
  int y() const { return static_cast<int>(names.size()) - 2; }
  int g() const { return static_cast<int>(names.size()) - 1; }
};

// Records every step of the formula on tensors and numbers of one dtype and device, with history
// where gradients flow. Returns an undefined tensor if the formula is constant.
Tensor evaluate(const Formula& formula, std::span<const Operand> values, SourceLocation place);

}  // namespace volta::graph
