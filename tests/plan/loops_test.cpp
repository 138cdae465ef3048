// Recurrent layers are loops in a plan: what planning them takes does not depend on their length,
// one plan serves many lengths, and the values are those of the steps one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/lower/visits.h"
#include "support/closed_sizes.h"
#include "support/test_device.h"
#include "volta/nn/recurrent.h"
#include "volta/volta.h"

namespace volta {
namespace {

bool is_slow() { return test_device().type() == DeviceType::opencl; }
constexpr const char* kSlow = "compiling the kernels of all layers takes longer than they tell";

// Kinds of layers, [length, 2, 4] to outputs.
struct Layer {
  std::string name;
  std::function<Tensor(const Tensor&)> output;
  std::vector<Tensor> parameters;
};

template <class M, class Options>
Layer layer(std::string name, Options options) {
  options.device = test_device();
  const auto net = std::make_shared<M>(4, 6, options);
  for (const Tensor& parameter : net->parameters()) parameter.eval();
  return {std::move(name), [net](const Tensor& x) { return (*net)(x).output; }, net->parameters()};
}

std::vector<Layer> layers() {
  manual_seed(11);
  std::vector<Layer> all;
  all.push_back(layer<nn::LSTM>("LSTM", nn::LSTMOptions{}));
  all.push_back(layer<nn::GRU>("GRU", nn::GRUOptions{}));
  all.push_back(layer<nn::RNN>("RNN", nn::RNNOptions{}));
  all.push_back(layer<nn::LSTM>("projected", nn::LSTMOptions{.proj_size = 3}));
  all.push_back(layer<nn::LSTM>("two layers, both directions",
                                nn::LSTMOptions{.num_layers = 2, .bidirectional = true}));
  return all;
}

Tensor input(std::int64_t length, std::int64_t batch = 2) {
  std::vector<float> numbers(static_cast<std::size_t>(length * batch * 4));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i * 37 % 31) / 16 - 1;
  return from_vector(numbers, {length, batch, 4}, {.device = test_device()});
}

// The output, and the gradients of the input and the parameters.
std::vector<std::vector<float>> training_step(const Layer& layer, const Tensor& sequence) {
  const Tensor x = sequence.detach().set_requires_grad(true);
  for (const Tensor& parameter : layer.parameters) Tensor(parameter).zero_grad();
  const Tensor y = layer.output(x);
  (y * y).sum().backward();
  std::vector<Tensor> wanted{y.detach(), x.grad()};
  for (const Tensor& parameter : layer.parameters) wanted.push_back(parameter.grad());
  submit(test_device());
  std::vector<std::vector<float>> values;
  for (const Tensor& tensor : wanted) values.push_back(tensor.to_vector<float>());
  return values;
}

std::vector<float> forward(const Layer& layer, const Tensor& x) {
  const NoGrad no_grad;
  return layer.output(x).to_vector<float>();
}

plan::Visits planning_of(const std::function<void()>& run) {
  const ClosedSizes closed;
  empty_cache(test_device());  // and what is known of groupings
  plan::visits() = {};
  run();
  return plan::visits();
}

TEST(Loops, PlanningDoesNotDependOnTheLength) {
  if (is_slow()) GTEST_SKIP() << kSlow;
  // On GPUs the product of a short sequence is a sum in a kernel, which is planned otherwise.
  const std::int64_t least = test_device().is_cpu() ? 10 : 2'000;
  for (const Layer& layer : layers()) {
    SCOPED_TRACE(layer.name);
    const Tensor few = input(least).eval(), many = input(10'000).eval();
    const plan::Visits few_steps = planning_of([&] { forward(layer, few); }),
                       many_steps = planning_of([&] { forward(layer, many); });
    EXPECT_GT(few_steps.lowered, 0u);
    EXPECT_EQ(few_steps.lowered, many_steps.lowered);
    EXPECT_NEAR(static_cast<double>(many_steps.total()), static_cast<double>(few_steps.total()),
                16);
    // The gradients of biases are sums over all steps, which are split where they are long: some
    // values more for each.
    const plan::Visits few_gradients = planning_of([&] { training_step(layer, few); }),
                       many_gradients = planning_of([&] { training_step(layer, many); });
    const double split = 60 * static_cast<double>(layer.parameters.size());
    EXPECT_NEAR(static_cast<double>(many_gradients.total()),
                static_cast<double>(few_gradients.total()), split);
  }
}

TEST(Loops, LengthsShareAPlan) {
  if (is_slow()) GTEST_SKIP() << kSlow;
  for (const Layer& layer : layers()) {
    SCOPED_TRACE(layer.name);
    const std::uint64_t before = counters().plans_built;
    std::uint64_t submits = 0;
    for (std::int64_t length = 70; length < 120; length += 2) {
      const std::uint64_t earlier = counters().submits;
      training_step(layer, input(length));
      submits = counters().submits - earlier;
    }
    // For each submit of a step: a plan for the first length, and one for all others.
    EXPECT_LE(counters().plans_built - before, 3 * submits);
  }
}

// Plans for many lengths and batches give the bits of plans of their own.
TEST(Loops, SharedPlansGiveTheSameBits) {
  if (is_slow()) GTEST_SKIP() << kSlow;
  const std::vector<std::pair<std::int64_t, std::int64_t>> sizes{
      {5, 3}, {9, 3}, {7, 4}, {6, 2}, {12, 5}, {3, 3}, {2, 4}, {1, 3}, {4, 7}, {40, 3}};
  for (const Layer& layer : layers()) {
    SCOPED_TRACE(layer.name);
    for (const auto& [length, batch] : sizes) {
      SCOPED_TRACE(std::to_string(length) + " x " + std::to_string(batch));
      const Tensor x = input(length, batch).eval();
      const std::vector<std::vector<float>> shared = training_step(layer, x);
      const ClosedSizes closed;
      EXPECT_EQ(training_step(layer, x), shared);
    }
  }
}

// Layers of one step after the other, each going on from the state of the one before.
TEST(Loops, IterationsAreStepsOneByOne) {
  if (is_slow()) GTEST_SKIP() << kSlow;
  for (const Cell cell : {Cell::lstm, Cell::gru, Cell::tanh, Cell::relu}) {
    for (const std::int64_t length : {4, 5}) {
      SCOPED_TRACE(static_cast<int>(cell) * 10 + length);
      const std::int64_t size = 16, width = gates_of(cell) * size;
      manual_seed(3);
      const TensorOptions options{.device = test_device()};
      const NoGrad no_grad;
      const Tensor x = randn({length, 8, width}, options).eval(),
                   weight = (randn({width, size}, options) / 4).eval(),
                   bias = randn({width}, options).eval();
      Tensor h = randn({8, size}, options).eval(), c;
      if (cell == Cell::lstm) c = randn({8, size}, options).eval();
      const RecurrentResult all = recurrent(cell, x, weight, bias, h, c);
      const std::vector<float> whole = all.output.to_vector<float>();
      std::vector<float> steps;
      for (std::int64_t t = 0; t < length; ++t) {
        const RecurrentResult one = recurrent(cell, x.narrow(0, t, 1), weight, bias, h, c);
        h = one.h, c = one.c;
        submit(test_device());
        const std::vector<float> values = one.output.to_vector<float>();
        steps.insert(steps.end(), values.begin(), values.end());
      }
      ASSERT_EQ(whole.size(), steps.size());
      // A kernel may round a product before it adds, or not: by what else it computes.
      for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], steps[i], 2e-6) << i;
      EXPECT_EQ(all.h.to_vector<float>(), all.output.narrow(0, length - 1, 1).to_vector<float>());
    }
  }
}

// States that nobody keeps alternate between two places, whatever the number of steps.
TEST(Loops, FinalStatesWithoutOutputs) {
  if (is_slow()) GTEST_SKIP() << kSlow;
  manual_seed(4);
  nn::LSTM lstm(4, 6, {.device = test_device()});
  const NoGrad no_grad;
  for (const std::int64_t length : {1, 2, 3, 4, 5, 8, 9}) {
    SCOPED_TRACE(length);
    const Tensor x = input(length).eval();
    Tensor h, c;
    {
      const auto [y, state] = lstm(x);
      h = state.h, c = state.c;
    }
    const Explanation plan = explain(std::vector<Tensor>{h, c});
    // The output is not among the temporaries of a long sequence: inputs, gates, four states.
    EXPECT_LE(plan.arena_bytes, static_cast<std::uint64_t>(length) * 2 * 24 * 4 + 8 * 256);
    const std::vector<float> only = h.to_vector<float>(), cell = c.to_vector<float>();
    const auto [y, state] = lstm(x);
    EXPECT_EQ(y.narrow(0, length - 1, 1).to_vector<float>(), only);
    EXPECT_EQ(state.c.to_vector<float>(), cell);
  }
}

// Sequences with the batch first are read as they lie.
TEST(Loops, BatchFirstNeedsNoCopies) {
  if (is_slow()) GTEST_SKIP() << kSlow;
  const auto step = [](bool batch_first) {
    manual_seed(5);
    nn::LSTM lstm(16, 16, {.batch_first = batch_first, .device = test_device()});
    const Tensor turned = randn({6, 9, 16}, {.device = test_device()}),
                 weight = randn({16, 16}, {.device = test_device()});
    const Tensor x = (batch_first ? turned : turned.transpose(0, 1).contiguous()).eval();
    weight.eval();
    const Tensor y = lstm(x).output;
    // The gradient of the output is a product, in the order of the output.
    y.reshape({54, 16}).matmul(weight).square().sum().backward();
    const Tensor gradient = lstm.weights().weight_hh->grad();
    int kernels = explain(gradient).kernels();
    return std::pair(kernels, gradient.to_vector<float>());
  };
  const auto [plain_kernels, plain] = step(false);
  const auto [kernels, turned] = step(true);
  ASSERT_EQ(plain.size(), turned.size());
  for (std::size_t i = 0; i < plain.size(); ++i)
    ASSERT_NEAR(plain[i], turned[i], 1e-4F * (1 + std::abs(plain[i])));
  // The output is put into its order once, and so is the input.
  EXPECT_LE(kernels, plain_kernels + 2);
}

TEST(Loops, ExplainShowsIterationsOnce) {
  nn::LSTM lstm(64, 64, {.bidirectional = true, .device = test_device()});
  const Tensor x = randn({100, 32, 64}, {.device = test_device()}).eval();
  for (const Tensor& p : lstm.parameters()) p.eval();
  const NoGrad no_grad;
  const Tensor y = lstm(x).output;
  const Explanation plan = explain(y);
  std::vector<StepInfo> loops;
  std::copy_if(plan.steps.begin(), plan.steps.end(), std::back_inserter(loops),
               [](const StepInfo& step) { return step.kind == "loop"; });
  ASSERT_EQ(loops.size(), 1u);  // both directions
  const StepInfo& loop = loops[0];
  EXPECT_EQ(loop.schedule, "100 iterations");
  std::int64_t launches = 0;
  std::uint64_t bytes = 0;
  for (const StepInfo& step : loop.body) {
    launches += step.times;
    bytes += static_cast<std::uint64_t>(step.times) * step.bytes_written;
  }
  EXPECT_EQ(launches, 100 + 2 * 99);  // a kernel, and from the second step on a product each
  EXPECT_EQ(bytes, loop.bytes_written);
  EXPECT_LT(plan.steps.size(), 8u);
  EXPECT_GE(plan.kernels() + plan.library_calls(), 100 + 2 * 99);
  // What is explained is what is counted.
  reset_counters();
  y.eval();
  EXPECT_EQ(counters().launches + counters().library_calls,
            static_cast<std::uint64_t>(plan.kernels() + plan.library_calls()));
}

}  // namespace
}  // namespace volta
