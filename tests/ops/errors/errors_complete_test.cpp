// Checks whether the tests of errors are complete. The mistakes that each public operation detects
// are found by making them with the calls of op_calls.h; for each of them, the tests in
// errors_*_test.cpp must have compared a message of the operation. Checked when all of them ran on
// the CPU.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "ops/op_calls.h"
#include "ops/op_declarations.h"
#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

constexpr std::size_t kLeastMessages = 400;

// An operation, by its name in messages, and a kind of mistake.
struct Mistake {
  std::string op, kind;
  bool operator<(const Mistake& other) const {
    return std::tie(op, kind) < std::tie(other.op, other.kind);
  }
};

Mistake mistake_of(const Error& error) {
  const std::string message = error.what();
  const std::string op = message.substr(0, message.find_first_of(": ("));
  const auto is = [&](const char* words) { return message.find(words) != std::string::npos; };
  std::string kind = "a bad value";
  if (dynamic_cast<const IndexError*>(&error) != nullptr) {
    kind = "an index out of range";
  } else if (dynamic_cast<const DTypeError*>(&error) != nullptr) {
    kind = "a wrong dtype";
  } else if (is("not a tensor")) {
    kind = "no tensor";
  } else if (dynamic_cast<const ShapeError*>(&error) != nullptr) {
    kind = is(": axis ") && is(" is out of range") ? "an axis out of range" : "a wrong shape";
  }
  return {op, kind};
}

std::optional<Mistake> mistake_in(const calls::Call& call, const calls::Tensors& inputs) {
  try {
    for (const Tensor& result : call.function(inputs)) result.eval();
    return std::nullopt;
  } catch (const Error& error) {
    return mistake_of(error);
  }
}

// The mistakes in its operands that an operation detects.
std::set<Mistake> noticed_by(const calls::Call& call) {
  std::set<Mistake> found;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const calls::Input& input = call.inputs[i];
    std::vector<Tensor> wrong{Tensor()};
    for (const Shape& shape : {Shape{}, Shape{5, 7, 11}})
      wrong.push_back(ones(shape, {.dtype = calls::usual_dtype(input)}));
    for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::boolean})
      wrong.push_back(calls::made(input, dtype, Device::cpu()));
    if (input.role == calls::Input::Role::index)
      wrong.push_back(full(input.shape, 100, {.dtype = DType::i64}));
    for (const Tensor& tensor : wrong) {
      calls::Tensors inputs = calls::usual_inputs(call, Device::cpu());
      inputs[i] = tensor;
      if (const auto mistake = mistake_in(call, inputs)) found.insert(*mistake);
    }
  }
  // With all operands of one dtype, promotion cannot hide a mistake.
  for (const DType dtype : {DType::i32, DType::boolean}) {
    calls::Tensors inputs;
    for (const calls::Input& input : call.inputs) {
      const bool value = input.role == calls::Input::Role::value;
      inputs.push_back(
          calls::made(input, value ? dtype : calls::usual_dtype(input), Device::cpu()));
    }
    if (const auto mistake = mistake_in(call, inputs)) found.insert(*mistake);
  }
  return found;
}

// The name of an operation in messages: cat is concat.
std::string shown_name(const calls::Call& call) {
  calls::Tensors inputs = calls::usual_inputs(call, Device::cpu());
  inputs[0] = Tensor();
  const auto mistake = mistake_in(call, inputs);
  return mistake ? mistake->op : call.op;
}

// Operations with arguments that can be wrong other than tensors, axes and sizes.
const std::set<std::string> kWithValues{"mod",
                                        "fmod",
                                        "floor_div",
                                        "pow",
                                        "mulacc",
                                        "clamp",
                                        "concat",
                                        "stack",
                                        "chunk",
                                        "roll",
                                        "tile",
                                        "norm",
                                        "einsum",
                                        "scatter",
                                        "masked_fill",
                                        "masked_select",
                                        "nonzero",
                                        "one_hot",
                                        "topk",
                                        "layer_norm",
                                        "batch_norm",
                                        "group_norm",
                                        "instance_norm",
                                        "dropout",
                                        "mse_loss",
                                        "l1_loss",
                                        "smooth_l1_loss",
                                        "huber_loss",
                                        "binary_cross_entropy",
                                        "binary_cross_entropy_with_logits",
                                        "nll_loss",
                                        "cross_entropy",
                                        "slice",
                                        "stride",
                                        "unfold",
                                        "repeat",
                                        "pad",
                                        "repeat_interleave",
                                        "scaled_dot_product_attention",
                                        "operator+=",
                                        "operator[]",
                                        "fill_"};

std::set<Mistake> possible_mistakes() {
  static const std::regex axis("\\b(axis|axes)\\b");
  std::set<Mistake> all;
  for (const declarations::Group& group : declarations::public_operations()) {
    for (const declarations::Operation& operation : group.operations) {
      for (const calls::Call* call : calls::of(operation.name)) {
        for (const Mistake& mistake : noticed_by(*call)) all.insert(mistake);
      }
      const std::string shown = shown_name(*calls::of(operation.name).at(0));
      if (std::regex_search(operation.signatures[0], axis))
        all.insert({shown, "an axis out of range"});
      if (kWithValues.count(operation.name) != 0) all.insert({shown, "a bad value"});
    }
  }
  return all;
}

class Completeness : public ::testing::Environment {
 public:
  void note(const Error& error) {
    messages_.insert(error.what());
    compared_.insert(mistake_of(error));
  }

  void TearDown() override {
    if (messages_.empty() || !is_whole() || !test_device().is_cpu()) return;
    const std::set<Mistake> possible = possible_mistakes();
    std::printf("error messages compared: %zu; kinds of mistakes, by operation: %zu\n",
                messages_.size(), possible.size());
    EXPECT_GE(messages_.size(), kLeastMessages);
    for (const Mistake& mistake : possible) {
      EXPECT_EQ(compared_.count(mistake), 1u)
          << mistake.op << " notices " << mistake.kind << ", and no test compares the message";
    }
  }

 private:
  // Whether the run is neither filtered nor one shard of several.
  static bool is_whole() {
    const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
    for (int i = 0; i < all.total_test_suite_count(); ++i) {
      const ::testing::TestSuite& suite = *all.GetTestSuite(i);
      const bool about_errors = std::string(suite.name()).find("Errors") != std::string::npos;
      if (about_errors && suite.test_to_run_count() != suite.total_test_count()) return false;
    }
    return true;
  }

  std::set<std::string> messages_;
  std::set<Mistake> compared_;
};

// GoogleTest owns this object.
Completeness* const completeness = [] {
  auto* environment = new Completeness;
  ::testing::AddGlobalTestEnvironment(environment);
  return environment;
}();

}  // namespace

void note(const Error& error) { completeness->note(error); }

}  // namespace volta::errors
