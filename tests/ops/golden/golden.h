// Golden values: PyTorch's results for calls of Volta's operations (tests/golden/make_golden.py). A
// family is a file tests/golden/<family>.safetensors and a table with the calls of its operations;
// see golden_elementwise_test.cpp.
#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "volta/tensor.h"

namespace volta::golden {

// The named numbers of a call.
class Attributes {
 public:
  bool has(const std::string& name) const { return numbers_.count(name) != 0; }
  Scalar operator[](const std::string& name) const { return numbers_.at(name); }
  double value(const std::string& name) const { return numbers_.at(name).value(); }
  // All names, each after a blank.
  std::string names() const {
    std::string text;
    for (const auto& [name, number] : numbers_) text += " " + name;
    return text;
  }
  // The part that kernels depend on: the names, and integer values such as axes and strides.
  std::string structure() const {
    std::string text;
    for (const auto& [name, number] : numbers_) {
      text += " " + name;
      if (!number.is_floating()) text += "=" + std::to_string(number.integer());
    }
    return text;
  }
  void set(const std::string& name, Scalar number) { numbers_.insert_or_assign(name, number); }

 private:
  std::map<std::string, Scalar> numbers_;
};

enum class Precision {
  exact,  // correctly rounded, or off by a step or two: f32 to 1e-6 relative
  equal,  // the same, but -0 equals 0, because devices differ in which of them is greater
  close,  // transcendental functions and sums: f32 to 1e-5
  sums,   // many terms of either sign: the same, relative to the largest element of the result
};

// A tensor of a case as stored in the file, before any view.
struct Values {
  Shape shape;
  std::vector<double> elements;
};

struct Operation {
  std::string name;
  Precision precision;
  std::function<Tensor(const std::vector<Tensor>&, const Attributes&)> function;
  // Returns the sum of the magnitudes of the terms that the gradient of input `i` adds up, from the
  // inputs and the gradient of the result. Terms may cancel completely, so that only rounding
  // errors remain, which are relative to the terms and differ between processors. Without this
  // function the largest element of the gradient is used.
  std::function<double(const std::vector<Values>& inputs, const Values& g, std::size_t i)> terms =
      {};
};
inline void PrintTo(const Operation& operation, std::ostream* out) { *out << operation.name; }

// Runs the cases of an operation on the test device: result, dtype, shape and gradients.
void check(const std::string& family, const Operation& operation);
// Every operation of the file must be in the table, at least six times in the file, and vice versa.
void expect_complete(const std::string& family, std::span<const Operation> operations);

// ---- All families, for the test of these tests.
struct Family {
  std::string name;
  const std::vector<Operation>& (*operations)();
  // whether some operations evaluate their operands when they are called
  bool looks_at_values = false;
};
std::vector<Family>& families();
// Used at the start of the program: static const Registration registration({"elementwise",
// operations});
struct Registration {
  explicit Registration(Family family) { families().push_back(std::move(family)); }
};
// The numbers of the cases to run on the test device.
std::vector<int> wanted_cases(const Family& family, const Operation& operation);
// Records a case with its gradients and evaluates nothing.
void record(const Family& family, const Operation& operation, int number);
// The problems of a case; empty if it agrees.
std::vector<std::string> problems_of(const Family& family, const Operation& operation, int number);

}  // namespace volta::golden
