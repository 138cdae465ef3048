// The formula parser: recursive descent into a list of instructions. Conditions and numbers are
// distinct types.
#include "graph/record/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <utility>

#include "graph/record/op.h"
#include "volta/error.h"

namespace volta::graph {

using kernel::ScalarOp;

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<ScalarOp> scalar_op_named(std::string_view name) {
  for (int i = 0; i < kernel::kScalarOpCount; ++i) {
    const auto op = static_cast<ScalarOp>(i);
    if (kernel::info(op).name == name) return op;
  }
  return std::nullopt;
}

std::optional<double> constant_named(std::string_view name) {
  if (name == "pi") return std::numbers::pi;
  if (name == "inf") return std::numeric_limits<double>::infinity();
  return std::nullopt;
}

bool takes_truth(ScalarOp op) {
  return op == ScalarOp::logical_and || op == ScalarOp::logical_or || op == ScalarOp::logical_xor ||
         op == ScalarOp::logical_not;
}

}  // namespace

class FormulaParser {
 public:
  FormulaParser(std::string_view what, std::string_view text, const std::vector<std::string>& names,
                std::vector<Formula::Step>& steps, int depth = 0)
      : what_(what), text_(text), names_(names), steps_(steps), depth_(depth) {}

  // `arguments` are the steps that the names stand for. If empty, each name becomes a step of its
  // own.
  int parse(std::vector<int> arguments = {}) {
    arguments_ = std::move(arguments);
    while (definition()) {
    }
    const int result = choice();
    if (peek() != '\0') fail("an operator is missing");
    return result;
  }

 private:
  using Step = Formula::Step;
  static constexpr int kMaxDepth = 64;  // of nested parentheses and of formulas that call formulas

  // A word or sign of the text, for error messages.
  struct Token {
    std::string_view text;
    std::size_t at;
  };

  [[noreturn]] void fail(const std::string& problem, std::size_t at) const {
    throw ArgumentError(
        fmt::format("{}: {} at character {} of \"{}\"", what_, problem, at + 1, text_));
  }
  [[noreturn]] void fail(const std::string& problem) const { fail(problem, at_); }

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t'))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(std::string_view token) {
    peek();
    if (text_.substr(at_, token.size()) != token) return false;
    taken_ = {token, at_};
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("'{}' is missing", token));
  }

  int add(Step step) {
    steps_.push_back(step);
    return static_cast<int>(steps_.size()) - 1;
  }
  Step& at(int step) { return steps_[static_cast<std::size_t>(step)]; }

  int number(double value) {
    return add({.kind = Step::Kind::Number, .in = {-1, -1, -1}, .number = value});
  }

  int op(ScalarOp op, std::array<int, 3> in, Token written) {
    const kernel::ScalarOpInfo& info = kernel::info(op);
    bool all_numbers = true;
    for (int i = 0; i < info.arity; ++i) {
      Step& input = at(in[static_cast<std::size_t>(i)]);
      const bool wants_truth = takes_truth(op) || (op == ScalarOp::where && i == 0);
      if (input.truth != wants_truth) {
        fail(wants_truth ? fmt::format("'{}' takes a condition, not a number,", written.text)
                         : fmt::format("'{}' takes a number, not a condition,", written.text),
             written.at);
      }
      all_numbers &= input.kind == Step::Kind::Number;
    }
    if (all_numbers) {
      if (const auto folded = fold(op, in)) return number(*folded);
    }
    return add({.kind = Step::Kind::Op,
                .op = op,
                .in = in,
                .truth = info.result == kernel::ScalarResult::Bool});
  }
  // The operator that was just taken. `infix` applies it to `a` and the operand that follows,
  // `before` only to the operand that follows.
  int infix(ScalarOp o, int a, int (FormulaParser::*operand)(), bool exchanged = false) {
    const Token sign = taken_;
    const int b = (this->*operand)();
    return op(o, exchanged ? std::array{b, a, -1} : std::array{a, b, -1}, sign);
  }
  int before(ScalarOp o, int (FormulaParser::*operand)()) {
    const Token sign = taken_;
    return op(o, {nested(operand), -1, -1}, sign);
  }

  // Computes operations on literal numbers, such as 2 / sqrt(pi).
  std::optional<double> fold(ScalarOp op, const std::array<int, 3>& in) {
    const double a = at(in[0]).number, b = in[1] < 0 ? 0 : at(in[1]).number;
    switch (op) {
      case ScalarOp::neg:
        return -a;
      case ScalarOp::add:
        return a + b;
      case ScalarOp::sub:
        return a - b;
      case ScalarOp::mul:
        return a * b;
      case ScalarOp::div:
        return a / b;
      case ScalarOp::sqrt:
        return std::sqrt(a);
      case ScalarOp::log:
        return std::log(a);
      default:
        return std::nullopt;
    }
  }

  // "a = abs(x);" before the formula names an expression that the formula uses several times.
  bool definition() {
    if (!is_letter(peek())) return false;
    const std::size_t start = at_;
    const std::string_view name = identifier();
    if (!take("=") || (at_ < text_.size() && text_[at_] == '=')) {
      at_ = start;
      return false;
    }
    if (std::find(names_.begin(), names_.end(), name) != names_.end() || constant_named(name) ||
        local_named(name)) {
      fail(fmt::format("'{}' is defined already", name), start);
    }
    const int value = choice();
    expect(";");
    locals_.emplace_back(name, value);
    return true;
  }
  std::optional<int> local_named(std::string_view name) const {
    for (const auto& [local, step] : locals_) {
      if (local == name) return step;
    }
    return std::nullopt;
  }

  // The depth is limited so that deeply nested texts do not overflow the stack.
  int nested(int (FormulaParser::*part)()) {
    if (++depth_ > kMaxDepth) fail("formulas are nested too deeply");
    const int result = (this->*part)();
    --depth_;
    return result;
  }
  int choice() { return nested(&FormulaParser::chosen); }
  int chosen() {
    const int condition = either();
    int result = condition;
    if (take("?")) {
      const Token sign = taken_;
      const int a = choice();
      expect(":");
      result = op(ScalarOp::where, {condition, a, choice()}, sign);
    }
    return result;
  }
  int either() {
    int a = both();
    while (take("||")) a = infix(ScalarOp::logical_or, a, &FormulaParser::both);
    return a;
  }
  int both() {
    int a = comparison();
    while (take("&&")) a = infix(ScalarOp::logical_and, a, &FormulaParser::comparison);
    return a;
  }
  int comparison() {
    const int a = sum();
    if (take("<=")) return infix(ScalarOp::le, a, &FormulaParser::sum);
    if (take(">=")) return infix(ScalarOp::le, a, &FormulaParser::sum, true);
    if (take("==")) return infix(ScalarOp::eq, a, &FormulaParser::sum);
    if (take("!=")) return infix(ScalarOp::ne, a, &FormulaParser::sum);
    if (take("<")) return infix(ScalarOp::lt, a, &FormulaParser::sum);
    if (take(">")) return infix(ScalarOp::lt, a, &FormulaParser::sum, true);
    return a;
  }
  int sum() {
    int a = product();
    for (;;) {
      if (take("+")) {
        a = infix(ScalarOp::add, a, &FormulaParser::product);
      } else if (take("-")) {
        a = infix(ScalarOp::sub, a, &FormulaParser::product);
      } else {
        return a;
      }
    }
  }
  int product() {
    int a = prefix();
    for (;;) {
      if (take("*")) {
        a = infix(ScalarOp::mul, a, &FormulaParser::prefix);
      } else if (take("/")) {
        a = infix(ScalarOp::div, a, &FormulaParser::prefix);
      } else {
        return a;
      }
    }
  }
  int prefix() {
    if (take("-")) return before(ScalarOp::neg, &FormulaParser::prefix);
    peek();
    if (text_.substr(at_, 2) != "!=" && take("!"))
      return before(ScalarOp::logical_not, &FormulaParser::prefix);
    return primary();
  }
  int primary() {
    const char c = peek();
    if (take("(")) {
      const int inner = choice();
      expect(")");
      return inner;
    }
    if (is_digit(c) || c == '.') return literal();
    if (is_letter(c)) return word();
    fail(c == '\0' ? "the formula ends too early" : fmt::format("unexpected '{}'", c));
  }
  int literal() {
    double value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number that cannot be read");
    at_ = static_cast<std::size_t>(end - text_.data());
    if (at_ < text_.size() && is_letter(text_[at_])) fail("a number runs into a name");
    return number(value);
  }
  std::string_view identifier() {
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    return text_.substr(start, at_ - start);
  }
  int word() {
    const std::size_t start = at_;
    const std::string_view name = identifier();
    if (peek() == '(') return call(name, start);
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found != names_.end()) {
      const auto index = static_cast<std::size_t>(found - names_.begin());
      if (!arguments_.empty()) return arguments_[index];
      return add({.kind = Step::Kind::Name, .in = {-1, -1, -1}, .name = static_cast<int>(index)});
    }
    if (const auto local = local_named(name)) return *local;
    if (const auto value = constant_named(name)) return number(*value);
    fail(fmt::format("'{}' is not a parameter", name), start);
  }
  int call(std::string_view name, std::size_t start) {
    expect("(");
    std::vector<int> arguments;
    if (!take(")")) {
      do arguments.push_back(choice());
      while (take(","));
      expect(")");
    }
    const auto require_count = [&](std::size_t count) {
      if (arguments.size() == count) return;
      fail(fmt::format("'{}' takes {} arguments, not {},", name, count, arguments.size()), start);
    };
    if (const auto scalar = scalar_op_named(name)) {
      require_count(static_cast<std::size_t>(kernel::info(*scalar).arity));
      std::array<int, 3> in{-1, -1, -1};
      std::copy(arguments.begin(), arguments.end(), in.begin());
      return op(*scalar, in, {name, start});
    }
    if (const FormulaText* formula = formula_named(name)) {
      const std::vector<std::string> names = parameter_names(formula->parameters);
      require_count(names.size());
      for (const int argument : arguments) {
        if (at(argument).truth)
          fail(fmt::format("'{}' takes numbers, not conditions,", name), start);
      }
      return FormulaParser(what_, formula->value, names, steps_, depth_ + 1).parse(arguments);
    }
    fail(fmt::format("there is no operation '{}'", name), start);
  }

  const std::string_view what_, text_;
  const std::vector<std::string>& names_;
  std::vector<Step>& steps_;
  std::vector<int> arguments_;
  std::vector<std::pair<std::string_view, int>> locals_;  // names and steps of definitions
  std::size_t at_ = 0;
  Token taken_{};  // the last token taken
  int depth_;
};

Formula::Formula(std::string_view what, std::string_view text,
                 const std::vector<std::string>& names) {
  const int result = FormulaParser(what, text, names, steps_).parse();
  // If the result is an earlier step, for example a definition, the steps after it are not needed.
  steps_.resize(static_cast<std::size_t>(result) + 1);
}

bool Formula::mentions(int name) const {
  return std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) {
    return step.kind == Step::Kind::Name && step.name == name;
  });
}

std::optional<double> Formula::number() const {
  const Step& result = steps_.back();
  return result.kind == Step::Kind::Number ? std::optional(result.number) : std::nullopt;
}

bool Formula::needs_floats() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) {
    if (step.kind != Step::Kind::Op) return step.number != std::floor(step.number);
    return step.op == ScalarOp::div || *kernel::info(step.op).integer_expression == '\0';
  });
}

std::vector<std::string> parameter_names(std::string_view parameters) {
  std::vector<std::string> names;
  std::string name;
  for (const char c : parameters) {
    if (c == ',') {
      names.push_back(std::exchange(name, {}));
    } else if (c != ' ') {
      name += c;
    }
  }
  names.push_back(name);
  return names;
}

namespace {
std::vector<std::string> with_results(std::string_view parameters) {
  std::vector<std::string> names = parameter_names(parameters);
  names.emplace_back("y");
  names.emplace_back("g");
  return names;
}
}  // namespace

ParsedFormula::ParsedFormula(const char* name, const FormulaText& text)
    : names(with_results(text.parameters)),
      value(name, text.value, parameter_names(text.parameters)) {
  for (const char* gradient : text.gradients) {
    if (gradient == nullptr) break;
    gradients.emplace_back(fmt::format("the gradient of {}", name), gradient, names);
    std::vector<int>& used = uses.emplace_back();
    for (int i = 0; i < g(); ++i) {
      if (gradients.back().mentions(i)) used.push_back(i);
    }
  }
}

}  // namespace volta::graph
