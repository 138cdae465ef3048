// The test of the tests: makes the result of each operation, and each gradient rule, wrong by one
// percent. The golden values must detect this for that operation and no other.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/record/node.h"
#include "graph/record/observer.h"
#include "graph/record/op.h"
#include "ops/golden/golden.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::golden {
namespace {

using graph::OpId;
using Ops = std::set<OpId>;

enum class Part { result, gradient };

// Operations whose gradient is zero everywhere.
const Ops kSteps{OpId::sign, OpId::floor, OpId::ceil, OpId::round, OpId::floor_div};

// Falsifies one operation of the thread, and notes which operations it sees.
class Spoiler final : public graph::RecordingObserver {
 public:
  Spoiler(Part part, OpId op) : part_(part), op_(op), before_(graph::recording_observer()) {
    graph::recording_observer() = this;
  }
  ~Spoiler() override { graph::recording_observer() = before_; }

  void recorded(OpId op, std::span<const graph::Borrowed>, Tensor& result,
                SourceLocation) override {
    recorded_ops.insert(op);
    if (part_ != Part::result || op != op_) return;
    graph::recording_observer() = before_;
    const NoGrad no_grad;
    const DType dtype = result.dtype();
    const Tensor wrong = dtype == DType::boolean ? logical_not(result)
                         : is_floating(dtype)    ? result * 1.01
                                                 : result + 1;
    graph::exchange_result(result, wrong);
    graph::recording_observer() = this;
  }
  void differentiated(const graph::Tape& tape, std::size_t, Tensor& gradient) override {
    differentiated_ops.insert(tape.op);
    if (part_ != Part::gradient || tape.op != op_) return;
    gradient = kSteps.count(op_) != 0 ? gradient + 0.01 : gradient * 1.01;
  }

  Ops recorded_ops, differentiated_ops;

 private:
  Part part_;
  OpId op_;
  graph::RecordingObserver* before_;
};
constexpr OpId kNone = OpId::kCount;

struct GoldenCase {
  const Family* family;
  const Operation* operation;
  int number;
  Ops recorded, differentiated;
  std::string name() const {
    return family->name + "/" + operation->name + "/" + std::to_string(number);
  }
  const Ops& ops(Part part) const { return part == Part::result ? recorded : differentiated; }
};

// Every case, with the operations that it records.
const std::vector<GoldenCase>& all_cases() {
  static const std::vector<GoldenCase> all = [] {
    std::vector<GoldenCase> cases;
    for (const Family& family : families()) {
      for (const Operation& operation : family.operations()) {
        for (const int number : wanted_cases(family, operation)) {
          Spoiler nothing(Part::result, kNone);
          record(family, operation, number);
          cases.push_back(
              {&family, &operation, number, nothing.recorded_ops, nothing.differentiated_ops});
        }
      }
    }
    return cases;
  }();
  return all;
}

bool notices(const GoldenCase& c, Part part, OpId op) {
  const Spoiler spoiler(part, op);
  try {
    return !problems_of(*c.family, *c.operation, c.number).empty();
  } catch (const Error&) {
    return true;  // an error such as a wrong index or a wrong number of elements
  }
}

Ops ops_of_cases(Part part) {
  Ops ops;
  for (const GoldenCase& c : all_cases()) ops.insert(c.ops(part).begin(), c.ops(part).end());
  return ops;
}

class Mutation : public ::testing::Test {
 protected:
  static void expect_noticed(Part part) {
    if (!test_device().is_cpu()) GTEST_SKIP() << "what the tests notice does not depend on devices";
    for (const OpId op : ops_of_cases(part)) {
      const std::string name = graph::op_table[static_cast<std::size_t>(op)].name;
      std::map<std::string, bool> noticed;  // by the called operation
      int others = 0;
      for (const GoldenCase& c : all_cases()) {
        if (c.ops(part).count(op) != 0) {
          bool& seen = noticed.try_emplace(c.operation->name, false).first->second;
          seen = seen || notices(c, part, op);
        } else if (c.number == 0 && ++others % 16 == 0) {
          EXPECT_FALSE(notices(c, part, op)) << c.name() << " fails with " << name << " wrong";
        }
      }
      bool any = false;
      for (const auto& [operation, seen] : noticed) any = any || seen;
      EXPECT_TRUE(any) << name << " can be wrong and nobody notices";
      const bool by_itself = noticed.count(name) == 0 || noticed[name];
      EXPECT_TRUE(by_itself) << "the cases of " << name << " do not notice";
    }
  }
};

TEST_F(Mutation, AWrongResultIsNoticedByItsOperationsCases) { expect_noticed(Part::result); }
TEST_F(Mutation, AWrongGradientIsNoticedByItsOperationsCases) { expect_noticed(Part::gradient); }

// ---- Rules that no golden case reaches: those of operations that only other rules record, those
// of random operations, and those of user functions. Finite differences must detect these.

using Function1 = std::function<Tensor(const Tensor&)>;
struct Checked {
  OpId op;
  Function1 function;
};

// The gradient of the sum of squares, as a function.
Function1 gradient_of(Function1 function) {
  return [function = std::move(function)](const Tensor& given) {
    const EnableGrad history;
    const Tensor x = given.requires_grad() ? given : given.detach().set_requires_grad();
    return grad(function(x).square().sum(), x, {.create_graph = true});
  };
}

// Rows of elementwise.def without golden values from PyTorch. conformance_unary_test.cpp has a
// reference for the value of each.
std::vector<Checked> unary_without_golden_values() {
  std::set<std::string> golden;
  for (const Family& family : families()) {
    for (const Operation& operation : family.operations()) golden.insert(operation.name);
  }
  using Unary = Tensor (*)(const Tensor&, SourceLocation);
  const std::pair<OpId, Unary> rows[] = {
#define VOLTA_UNARY(name) {OpId::name, name},
#include "ops/elementwise_rows.def"
  };
  std::vector<Checked> all;
  for (const auto& [op, function] : rows) {
    if (golden.count(graph::op_table[static_cast<std::size_t>(op)].name) != 0) continue;
    all.push_back({op, [function = function](const Tensor& x) {
                     // Around 0, or around 2 for operations that are only defined there.
                     const Tensor small = x * 0.25, y = function(small, SourceLocation::here());
                     return isnan(y).any().item<bool>()
                                ? function(small + 2, SourceLocation::here())
                                : y;
                   }});
  }
  return all;
}

std::vector<Checked> checked_by_differences() {
  const auto made = [](const Shape& shape, double step) {
    const Tensor line = arange(shape.numel(), {.dtype = DType::f64});
    return ((line * step).sin() + 1.5).reshape(shape);
  };
  const Tensor rows = from_vector<std::int64_t>({2, 0, 2});
  const Function same({.name = "same",
                       .forward = [](FunctionContext&, const auto& x) { return x; },
                       .backward = [](FunctionContext&, const auto& g) { return g; }});
  const Function1 image = [](const Tensor& x) { return x.reshape({1, 1, 4, 4}); };
  const Function1 pooled = [=](const Tensor& x) { return max_pool2d(image(x), 2); };
  std::vector<Checked> all{
      {OpId::function, [=](const Tensor& x) { return same(x * 2); }},
      {OpId::dropout, [](const Tensor& x) { return dropout(x, 0.5, true, Generator(7)); }},
      {OpId::sum_to, gradient_of([=](const Tensor& x) { return x * made({3, 16}, 0.7); })},
      {OpId::index_sum, gradient_of([=](const Tensor& x) { return x[rows] * 2; })},
      {OpId::select_at, gradient_of([=](const Tensor& x) {
         Tensor y = made({2, 16}, 0.3);
         y[1] = x;
         return y;
       })},
      {OpId::fold, gradient_of([](const Tensor& x) { return x.unfold(0, 5, 2); })},
      {OpId::conv_weight_grad,
       gradient_of([=](const Tensor& x) { return conv2d(made({1, 1, 6, 6}, 0.9), image(x)); })},
      {OpId::max_pool_grad, gradient_of(pooled)},
      {OpId::max_pool_at, gradient_of(gradient_of(pooled))},
      {OpId::avg_pool_grad, gradient_of([=](const Tensor& x) { return avg_pool2d(image(x), 3); })},
      {OpId::resample_grad, gradient_of([=](const Tensor& x) {
         return interpolate(image(x), {.size = {7, 5}, .mode = InterpolateMode::bilinear});
       })},
  };
  for (Checked& unary : unary_without_golden_values()) all.push_back(std::move(unary));
  return all;
}

TEST_F(Mutation, AWrongRuleBeyondTheGoldenCasesIsNoticedByDifferences) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "what the tests notice does not depend on devices";
  const Tensor x = ((arange(16, {.dtype = DType::f64}) * 0.8).cos() + 0.3).eval();
  Ops noticed;
  for (const auto& [op, function] : checked_by_differences()) {
    const std::string name = graph::op_table[static_cast<std::size_t>(op)].name;
    const CheckOptions options{.eps = 1e-5, .tol = 1e-4};
    const CheckReport right = check_gradients(function, x, options);
    EXPECT_TRUE(right.passed) << name << ": " << right.message;
    const Spoiler spoiler(Part::gradient, op);
    EXPECT_FALSE(check_gradients(function, x, options).passed) << name << " can be wrong";
    EXPECT_EQ(spoiler.differentiated_ops.count(op), 1u) << name;
    noticed.insert(op);
  }
  // A copy to the tensor's own device records nothing; device_test.cpp uses two devices.
  // function_output only signals that there is a gradient, which the rule of `function` takes.
  const Ops elsewhere{OpId::to_device, OpId::function_output};
  const Ops golden = ops_of_cases(Part::gradient);
  int rules = 0, by_golden = 0, by_differences = 0;
  std::string missing;
  for (const graph::Op& op : graph::op_table) {
    if (op.vjp == nullptr || elsewhere.count(op.id) != 0) continue;
    ++rules;
    if (golden.count(op.id) != 0) {
      ++by_golden;
    } else if (noticed.count(op.id) != 0) {
      ++by_differences;
    } else {
      missing += std::string(" ") + op.name;
    }
  }
  EXPECT_EQ(missing, "");
  std::printf(
      "gradient rules: %d; made wrong one by one: %d noticed by golden values, %d more by "
      "differences\n",
      rules, by_golden, by_differences);
}

// Each operation and each gradient runs on this device, whichever cases are left to others. This
// lists the operations without golden values and the tests that cover them.
TEST(Golden, EveryOperationAndEveryGradientIsCovered) {
  std::map<OpId, std::string> elsewhere = {
      {OpId::constant, "a number; every test has some"},
      {OpId::output, "leads to the results of operations with several"},
      {OpId::to_device, "device_test.cpp"},
      {OpId::function, "function_test.cpp"},
      {OpId::function_output, "function_test.cpp"},
      {OpId::formula_grad, "the gradients of formulas"},
      {OpId::iota, "creation_test.cpp"},
      {OpId::sum_to, "gradient rules record it"},
      {OpId::index_sum, "the rule of index records it"},
      {OpId::select_at, "the rule of put_slice records it"},
      {OpId::fold, "the rule of unfold records it"},
      {OpId::attention_grad, "the rule of attention records it"},
      {OpId::recurrent, "nn/recurrent_golden_test.cpp"},
      {OpId::recurrent_grad, "nn/recurrent_golden_test.cpp"},
      {OpId::batch_norm_grad, "the rule of batch_norm records it"},
      {OpId::conv_weight_grad, "the rule of conv records it; conformance_convolution_test.cpp"},
      {OpId::max_pool_grad, "the rule of max_pool records it"},
      {OpId::max_pool_at, "the rule of max_pool_grad records it"},
      {OpId::avg_pool_grad, "the rule of avg_pool records it"},
      {OpId::resample_grad, "the rule of resample records it"},
      {OpId::true_positions, "conformance_indexing_test.cpp"},
      {OpId::philox, "generator_test.cpp"},
      {OpId::normal, "generator_test.cpp"},
      {OpId::dropout, "conformance_network_test.cpp"},
      {OpId::sgd, "optim_test.cpp"},
      {OpId::adam, "optim_test.cpp"},
      {OpId::rmsprop, "optim_golden_test.cpp"},
      {OpId::adagrad, "optim_golden_test.cpp"},
      {OpId::lion, "optim_golden_test.cpp"},
      {OpId::muon, "optim_golden_test.cpp"},
      {OpId::any_nonfinite, "amp_golden_test.cpp"},
      {OpId::total_norm, "amp_golden_test.cpp"},
  };
  for (const Checked& unary : unary_without_golden_values())
    elsewhere.emplace(unary.op, "conformance_unary_test.cpp");
  const Ops recorded = ops_of_cases(Part::result), differentiated = ops_of_cases(Part::gradient);
  std::string missing;
  for (const graph::Op& op : graph::op_table) {
    if (elsewhere.count(op.id) != 0) continue;
    if (recorded.count(op.id) == 0) missing += std::string(" ") + op.name;
    if (op.vjp != nullptr && differentiated.count(op.id) == 0)
      missing += std::string(" gradient of ") + op.name;
  }
  EXPECT_EQ(missing, "");
}

}  // namespace
}  // namespace volta::golden
