// Golden values: what PyTorch gave for calls of Volta's operations (tests/golden/make_golden.py).
// A family is a file tests/golden/<family>.safetensors and a table that says how each of its
// operations is called here; see golden_elementwise_test.cpp.
#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "volta/tensor.h"

namespace volta::golden {

// Numbers that go with a call, by name.
class Attributes {
 public:
  bool has(const std::string& name) const { return numbers_.count(name) != 0; }
  Scalar operator[](const std::string& name) const { return numbers_.at(name); }
  double value(const std::string& name) const { return numbers_.at(name).value(); }
  // All of them, each after a blank.
  std::string names() const {
    std::string text;
    for (const auto& [name, number] : numbers_) text += " " + name;
    return text;
  }
  // What kernels depend on: which there are, and those that are integers, as axes and strides.
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
  exact,  // correctly rounded, or a step or two of it: f32 to 1e-6 relative
  equal,  // the same, but -0 and 0 are equal: which of them is greater is the device's choice
  close,  // transcendental functions and sums: f32 to 1e-5
  sums,   // of many terms of either sign: the same, of the largest element of the result
};

// A tensor of a case as the file has it, before any view.
struct Values {
  Shape shape;
  std::vector<double> elements;
};

struct Operation {
  std::string name;
  Precision precision;
  std::function<Tensor(const std::vector<Tensor>&, const Attributes&)> function;
  // How large the sum of the magnitudes of the terms is that the gradient of input `i` adds up,
  // from the inputs and the gradient of the result. Terms may cancel to nothing, and rounding,
  // which goes by their size and differs between processors, is then all that is left. Without it
  // the largest element of the gradient counts.
  std::function<double(const std::vector<Values>& inputs, const Values& g, std::size_t i)> terms =
      {};
};
inline void PrintTo(const Operation& operation, std::ostream* out) { *out << operation.name; }

// Runs the cases of an operation on the test device: result, dtype, shape and gradients.
void check(const std::string& family, const Operation& operation);
// Each operation of the file is in the table, at least six times in the file, and vice versa.
void expect_complete(const std::string& family, std::span<const Operation> operations);

// ---- All families, for the test of these tests.
struct Family {
  std::string name;
  const std::vector<Operation>& (*operations)();
  // Some operations evaluate what they are given when they are called.
  bool looks_at_values = false;
};
std::vector<Family>& families();
// At the start of the program: static const Registration registration({"elementwise", operations});
struct Registration {
  explicit Registration(Family family) { families().push_back(std::move(family)); }
};
// The numbers of the cases that are run on the test device.
std::vector<int> wanted_cases(const Family& family, const Operation& operation);
// Records a case, its gradients too, and evaluates nothing.
void record(const Family& family, const Operation& operation, int number);
// What is wrong with a case; nothing: it agrees.
std::vector<std::string> problems_of(const Family& family, const Operation& operation, int number);

}  // namespace volta::golden
