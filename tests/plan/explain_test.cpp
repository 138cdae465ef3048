// Complete explanations, word for word.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "plan/explain.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here(bool grad = false) { return {.device = test_device(), .requires_grad = grad}; }

std::string text_of(const Explanation& explanation) {
  std::ostringstream text;
  text << explanation;
  return text.str();
}

// A line of this file, as explanations print it.
std::string at(int line) { return "explain_test.cpp:" + std::to_string(line); }

// Removes predictions, which only devices with nominal figures have; the rest is the same
// everywhere.
std::string without_predictions(std::string text) {
  for (std::size_t from = text.find("; "); from != std::string::npos;
       from = text.find("; ", from)) {
    const std::size_t end = text.find('\n', from);
    const bool prediction = text.substr(from, end - from).find(" us expected") != std::string::npos;
    if (prediction)
      text.erase(from, end - from);
    else
      from += 2;
  }
  return text;
}

TEST(Explain, AChainInOneKernel) {
  const Tensor x = rand({100, 250}, here()).eval();
  const int line = __LINE__ + 1;
  const Tensor y = (x * x + 1).sqrt();
  EXPECT_EQ(without_predictions(text_of(explain(y))),
            "1 kernel, 0 library calls: reads 100.0 kB, writes 100.0 kB, 75.0 kop; "
            "0 B of temporaries\n"
            "  1  kernel (map): mul add sqrt\n"
            "     reads 100.0 kB, writes 100.0 kB, 75.0 kop, 0.4 op/B, bound by memory\n"
            "  => f32 [100, 250] sqrt (" +
                at(line) + "), 100.0 kB: by step 1, fresh memory, not random (" + at(line - 2) +
                "): somebody else holds it; held by a handle\n");
  EXPECT_TRUE(y.is_pending());  // explaining runs nothing
  y.eval();
  EXPECT_EQ(text_of(explain(y)), "nothing pending\n");
}

TEST(Explain, AProductAndWhatFollows) {
  const Tensor a = rand({128, 256}, here()).eval(), b = rand({256, 512}, here()).eval();
  const int line = __LINE__ + 1;
  const Tensor y = a.matmul(b).softmax(1);
  EXPECT_EQ(without_predictions(text_of(explain(y))),
            "1 kernel, 1 library call: reads 917.5 kB, writes 524.3 kB, 33.9 Mop; "
            "262.1 kB of temporaries\n"
            "  1  matmul (library): matmul [1, 128, 256] x [256, 512]\n"
            "     reads 655.4 kB, writes 262.1 kB, 33.6 Mop, 36.6 op/B, bound by arithmetic\n"
            "  2  kernel (rows): softmax\n"
            "     reads 262.1 kB, writes 262.1 kB, 327.8 kop, 0.6 op/B, bound by memory\n"
            "  => f32 [128, 512] softmax (" +
                at(line) + "), 262.1 kB: by step 2, fresh memory; held by a handle\n");
}

TEST(Explain, WhoKeepsWhat) {
  const Tensor x = rand({40, 30}, here()).eval();
  Tensor w = rand({30}, here(true));
  w.eval();
  const int line = __LINE__ + 1;
  const Tensor e = (x * w).exp();
  const Tensor loss = e.square().sum();
  EXPECT_EQ(without_predictions(text_of(explain(loss))),
            "1 kernel, 0 library calls: reads 4.9 kB, writes 4.8 kB, 4.8 kop; 0 B of temporaries\n"
            "  1  kernel (rows): mul exp square sum\n"
            "     reads 4.9 kB, writes 4.8 kB, 4.8 kop, 0.5 op/B, bound by memory\n"
            "  => f32 [40, 30] exp (" +
                at(line) + "), 4.8 kB: by step 1, fresh memory, not random (" + at(line - 4) +
                "): somebody else holds it; held by a handle, " +
                "saved for the gradient of square (" + at(line + 1) +
                "), saved for the gradient of exp (" + at(line) +
                ")\n"
                "  => f32 [] sum (" +
                at(line + 1) + "), 4 B: by step 1, fresh memory; held by a handle\n");
}

TEST(Explain, UpdatesInPlaceAndWhatPreventsThem) {
  Tensor p = rand({64, 64}, here()).eval().clone();
  p.eval();
  const Tensor g = rand({64, 64}, here()).eval();
  const auto memory = [&] {
    const Explanation plan = explain(p);
    EXPECT_EQ(plan.results.size(), 1u);
    return plan.results.front().memory;
  };
  p -= g * 0.1;
  EXPECT_EQ(memory().rfind("in place of ", 0), 0u) << memory();
  submit(test_device());
  const Tensor old = p.detach();
  p -= g * 0.1;
  EXPECT_NE(memory().find("somebody else holds it"), std::string::npos) << memory();
  submit(test_device());
}

TEST(Explain, ALaterReaderPreventsAnUpdateInPlace) {
  Tensor p = rand({64, 64}, here()).eval().clone();
  p.eval();
  const Tensor q = p.softmax(1);  // one space with the update; rows are shared by threads
  p *= 2;
  const Explanation plan = explain(p);
  ASSERT_EQ(plan.results.size(), 2u);
  bool explained = false;
  for (const ResultInfo& result : plan.results)
    explained |= result.memory.find("threads share its rows") != std::string::npos;
  EXPECT_TRUE(explained) << text_of(plan);
  submit(test_device());
}

// Predictions follow from a device's figures: the larger of the times for bytes and operations,
// plus the start of a kernel.
TEST(Explain, PredictsFromTheDevicesFigures) {
  plan::Account account;
  account.figures = {.bytes_per_second = 1e12, .operations_per_second = 1e13};
  plan::PlanSteps steps;
  const plan::KernelStep kernel{std::make_shared<const kernel::Program>(), {}, "relu"};
  const auto add = [&](std::uint64_t operations) {
    steps.steps.emplace_back(kernel);
    steps.costs.push_back(
        {.bytes_read = 6'000'000, .bytes_written = 2'000'000, .operations = operations});
  };
  add(1'000'000);
  add(180'000'000);
  account.add_steps(steps);
  const StepInfo &light = account.explanation.steps[0], &heavy = account.explanation.steps[1];
  EXPECT_TRUE(light.memory_bound);
  EXPECT_DOUBLE_EQ(light.seconds, 10e-6);
  EXPECT_DOUBLE_EQ(light.peak_share, 0.8);
  EXPECT_FALSE(heavy.memory_bound);
  EXPECT_DOUBLE_EQ(heavy.seconds, 20e-6);
  EXPECT_DOUBLE_EQ(heavy.peak_share, 0.9);
  EXPECT_NE(text_of(account.explanation).find("; 10.0 us expected, 80% of the device's peak\n"),
            std::string::npos);
}

// Products of halves and of tf32 numbers have rates of their own.
TEST(Explain, PredictsProductsByTheirArithmetic) {
  const DeviceFigures figures{.bytes_per_second = 1e12,
                              .operations_per_second = 1e13,
                              .tf32_per_second = 1e14,
                              .halves_per_second = 2e14};
  const plan::StepCost cost{.bytes_read = 1'000, .operations = 4'000'000'000};
  plan::MatmulStep product;
  const auto least = [&] {
    const StepInfo info = plan::describe(product, cost, figures);
    EXPECT_FALSE(info.memory_bound);
    return info.seconds * info.peak_share;
  };
  EXPECT_DOUBLE_EQ(least(), 4e-4);
  product.tf32 = true;
  EXPECT_DOUBLE_EQ(least(), 4e-5);
  product.dtype = DType::bf16;
  EXPECT_DOUBLE_EQ(least(), 2e-5);
}

}  // namespace
}  // namespace volta
