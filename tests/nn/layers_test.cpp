// Properties of layers other than their values, which layers_golden_test.cpp compares: initial
// values, dtypes and devices, running statistics, modes, threads, plans of a training step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "support/test_device.h"
#include "volta/nn/batch_norm.h"
#include "volta/nn/conv.h"
#include "volta/nn/norm.h"
#include "volta/nn/pooling.h"
#include "volta/nn/shape_layers.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Names = std::vector<std::string>;

Tensor on_device(const Tensor& x) { return x.to(test_device()); }

// Expects a uniform distribution in ±bound, by its ends, mean and variance.
void expect_uniform(const Tensor& values, double bound) {
  double sum = 0, squares = 0, largest = 0;
  const std::vector<float> list = values.detach().to_vector<float>();
  for (const float value : list) {
    sum += value;
    squares += static_cast<double>(value) * value;
    largest = std::max(largest, std::fabs(static_cast<double>(value)));
  }
  const auto count = static_cast<double>(list.size());
  EXPECT_LE(largest, bound * 1.000001);
  EXPECT_GT(largest, bound * (1 - 30 / count));
  EXPECT_NEAR(sum / count, 0, 4 * bound / std::sqrt(3 * count));  // four deviations
  EXPECT_NEAR(squares / count, bound * bound / 3, 4 * bound * bound * 0.3 / std::sqrt(count));
}

TEST(ConvLayers, StartAsPyTorchs) {
  manual_seed(1);
  const nn::Conv1d conv1(6, 40, 5, {.groups = 2, .device = test_device()});
  EXPECT_EQ(conv1.weight->shape(), (Shape{40, 3, 5}));
  expect_uniform(conv1.weight, 1 / std::sqrt(15.0));
  const nn::Conv2d conv2(8, 300, {3, 2}, {.device = test_device()});
  EXPECT_EQ(conv2.weight->shape(), (Shape{300, 8, 3, 2}));
  EXPECT_EQ(conv2.bias->shape(), (Shape{300}));
  expect_uniform(conv2.weight, 1 / std::sqrt(48.0));
  expect_uniform(conv2.bias, 1 / std::sqrt(48.0));
  // As in PyTorch, the fan in comes from the weight's second axis, which here is that of the
  // output.
  const nn::ConvTranspose1d up1(10, 30, 4, {.device = test_device()});
  EXPECT_EQ(up1.weight->shape(), (Shape{10, 30, 4}));
  expect_uniform(up1.weight, 1 / std::sqrt(120.0));
  const nn::ConvTranspose2d up2(20, 12, {2, 3}, {.groups = 2, .device = test_device()});
  EXPECT_EQ(up2.weight->shape(), (Shape{20, 6, 2, 3}));
  EXPECT_EQ(up2.bias->shape(), (Shape{12}));
  expect_uniform(up2.weight, 1 / std::sqrt(36.0));

  manual_seed(1);
  // The numbers are equal on every device, except for the last bit of u * (high - low) + low.
  const std::vector<float> here = nn::Conv1d(6, 40, 5, {.groups = 2}).weight->to_vector<float>(),
                           there = conv1.weight->to_vector<float>();
  ASSERT_EQ(here.size(), there.size());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(here[i], there[i], 3e-8) << i;
  EXPECT_FALSE(nn::Conv2d(1, 1, 1, {.bias = false}).bias.defined());
  EXPECT_EQ(nn::Conv2d(1, 1, 1, {.bias = false}).parameters().size(), 1u);
}

TEST(NormLayers, StartAsPyTorchs) {
  const nn::BatchNorm2d batch(3, {.device = test_device()});
  const nn::GroupNorm group(1, 3, {.device = test_device()});
  const nn::InstanceNorm2d instance(
      3, {.affine = true, .track_running_stats = true, .device = test_device()});
  const nn::RMSNorm rms(3, {.device = test_device()});
  const std::vector<float> all_ones(3, 1.0f), all_zeros(3, 0.0f);
  for (const nn::Parameter& weight : {batch.weight, group.weight, instance.weight, rms.weight})
    EXPECT_EQ(weight->to_vector<float>(), all_ones);
  for (const nn::Parameter& bias : {batch.bias, group.bias, instance.bias})
    EXPECT_EQ(bias->to_vector<float>(), all_zeros);
  for (const nn::Buffer& mean : {batch.running_mean, instance.running_mean})
    EXPECT_EQ(mean->to_vector<float>(), all_zeros);
  for (const nn::Buffer& var : {batch.running_var, instance.running_var})
    EXPECT_EQ(var->to_vector<float>(), all_ones);
  for (const nn::Buffer& count : {batch.num_batches_tracked, instance.num_batches_tracked}) {
    EXPECT_EQ(count->dtype(), DType::i64);
    EXPECT_EQ(count->shape(), Shape{});
    EXPECT_EQ(count->item<std::int64_t>(), 0);
  }
  EXPECT_EQ(nn::PReLU(2).weight->to_vector<float>(), (std::vector<float>{0.25f, 0.25f}));
  EXPECT_EQ(nn::PReLU(1, {.init = 0.5}).weight->to_vector<float>(), std::vector<float>{0.5f});
}

Names names_of(const nn::Module& module) {
  Names names;
  for (const auto& [name, value] : module.state_dict()) names.push_back(name);
  return names;
}

TEST(NormLayers, StateHasPyTorchsNamesInItsOrder) {
  const Names all{"weight", "bias", "running_mean", "running_var", "num_batches_tracked"};
  EXPECT_EQ(names_of(nn::BatchNorm1d(2)), all);
  EXPECT_EQ(names_of(nn::BatchNorm2d(2, {.affine = false})), Names(all.begin() + 2, all.end()));
  EXPECT_EQ(names_of(nn::BatchNorm2d(2, {.track_running_stats = false})),
            Names(all.begin(), all.begin() + 2));
  EXPECT_EQ(names_of(nn::InstanceNorm2d(2, {.affine = true, .track_running_stats = true})), all);
  EXPECT_TRUE(names_of(nn::InstanceNorm2d(2)).empty());
  EXPECT_EQ(names_of(nn::RMSNorm(2)), Names{"weight"});
  nn::BatchNorm2d norm(2);
  EXPECT_EQ(norm.parameters().size(), 2u);
  for (const auto& [name, buffer] : norm.named_buffers()) EXPECT_FALSE(buffer.requires_grad());
}

TEST(Layers, TakeDtypesAndDevices) {
  const auto expect_at = [](const nn::Module& module, DType dtype) {
    EXPECT_EQ(module.device(), test_device());
    for (const auto& [name, value] : module.state_dict())
      EXPECT_EQ(value.dtype(), name == "num_batches_tracked" ? DType::i64 : dtype) << name;
  };
  const DType half = DType::bf16;
  expect_at(nn::Conv1d(1, 1, 1, {.dtype = half, .device = test_device()}), half);
  expect_at(nn::Conv2d(1, 1, 1, {.dtype = half, .device = test_device()}), half);
  expect_at(nn::ConvTranspose1d(1, 1, 1, {.dtype = half, .device = test_device()}), half);
  expect_at(nn::ConvTranspose2d(1, 1, 1, {.dtype = half, .device = test_device()}), half);
  expect_at(nn::BatchNorm1d(1, {.dtype = half, .device = test_device()}), half);
  expect_at(nn::BatchNorm2d(1, {.dtype = half, .device = test_device()}), half);
  expect_at(nn::RMSNorm(1, {.dtype = half, .device = test_device()}), half);
  expect_at(nn::GroupNorm(1, 1, {.dtype = half, .device = test_device()}), half);
  expect_at(
      nn::InstanceNorm2d(
          1, {.affine = true, .track_running_stats = true, .dtype = half, .device = test_device()}),
      half);
  expect_at(nn::PReLU(1, {.dtype = half, .device = test_device()}), half);
}

// Weights are f32 and activations halves, as under Autocast.
TEST(NormLayers, HalvesBesideF32) {
  const Tensor x = randn({4, 6}, {.dtype = DType::bf16, .device = test_device()});
  nn::RMSNorm rms(6, {.device = test_device()});
  EXPECT_EQ(rms(x).dtype(), DType::f32);
  EXPECT_EQ(nn::RMSNorm(6, {.dtype = DType::bf16, .device = test_device()})(x).dtype(),
            DType::bf16);
  EXPECT_EQ(nn::RMSNorm(6, {.elementwise_affine = false})(x).dtype(), DType::bf16);
  nn::BatchNorm1d batch(6, {.device = test_device()});
  EXPECT_EQ(batch(x).dtype(), DType::bf16);
  EXPECT_EQ(batch.running_mean->dtype(), DType::f32);
}

TEST(BatchNormLayers, EvalModeChangesNothing) {
  nn::BatchNorm2d norm(3, {.device = test_device()});
  norm.eval();
  const Tensor x = on_device(randn({4, 3, 2, 2}));
  const Tensor expected = x / std::sqrt(1 + 1e-5);
  EXPECT_LT((norm(x) - expected).abs().max().item(), 1e-6);
  EXPECT_EQ(norm.running_mean->to_vector<float>(), std::vector<float>(3, 0.0f));
  EXPECT_EQ(norm.num_batches_tracked->item<std::int64_t>(), 0);
  norm.train();
  norm(x);
  EXPECT_NE(norm.running_mean->to_vector<float>(), std::vector<float>(3, 0.0f));
  EXPECT_EQ(norm.num_batches_tracked->item<std::int64_t>(), 1);
}

TEST(BatchNormLayers, WithoutMomentumKeepTheMeanOfAllBatches) {
  nn::BatchNorm1d norm(2, {.momentum = std::nullopt, .device = test_device()});
  double mean = 0, variance = 0;
  for (int i = 0; i < 5; ++i) {
    const Tensor x = on_device(randn({7, 2}) * 1e-3 + i);
    norm(x);
    mean += x.mean(0).to_vector<float>()[1] / 5.0;
    variance += x.var(0).to_vector<float>()[1] / 5.0;
  }
  EXPECT_NEAR(norm.running_mean->to_vector<float>()[1], mean, 1e-5);
  EXPECT_NEAR(norm.running_var->to_vector<float>()[1], variance, 1e-5 * variance + 1e-9);
  EXPECT_EQ(norm.num_batches_tracked->item<std::int64_t>(), 5);
  norm(zeros({0, 2}, {.device = test_device()}));
  EXPECT_NEAR(norm.running_mean->to_vector<float>()[1], mean, 1e-5);
}

TEST(NormLayers, InstanceNormWithoutMomentumKeepsTheMeanOfAllBatches) {
  nn::InstanceNorm2d norm(
      2, {.momentum = std::nullopt, .track_running_stats = true, .device = test_device()});
  double mean = 0, variance = 0;
  for (int i = 0; i < 5; ++i) {
    const Tensor x = on_device(randn({3, 2, 2, 4}) * 1e-3 + i);
    norm(x);
    mean += x.mean({0, 2, 3}).to_vector<float>()[1] / 5.0;
    variance += x.flatten(2).var(2).mean(0).to_vector<float>()[1] / 5.0;
  }
  EXPECT_NEAR(norm.running_mean->to_vector<float>()[1], mean, 1e-5);
  EXPECT_NEAR(norm.running_var->to_vector<float>()[1], variance, 1e-5 * variance + 1e-9);
  EXPECT_EQ(norm.num_batches_tracked->item<std::int64_t>(), 5);
  norm.eval();
  norm(on_device(ones({1, 2, 2, 2})));
  EXPECT_EQ(norm.num_batches_tracked->item<std::int64_t>(), 5);
}

TEST(BatchNormLayers, ARefusedBatchCountsForNothing) {
  nn::BatchNorm1d norm(2, {.device = test_device()});
  EXPECT_THROW(norm(ones({1, 2}, {.device = test_device()})), ArgumentError);
  EXPECT_EQ(norm.num_batches_tracked->item<std::int64_t>(), 0);
  norm.eval();
  EXPECT_EQ(norm(ones({1, 2}, {.device = test_device()})).shape(), (Shape{1, 2}));
}

TEST(BatchNormLayers, CopiesShareStatisticsAndClonesDoNot) {
  nn::BatchNorm1d norm(2, {.device = test_device()});
  const nn::BatchNorm1d handle = norm, copy = nn::clone(norm);
  norm(on_device(randn({8, 2})));
  EXPECT_EQ(handle.num_batches_tracked->item<std::int64_t>(), 1);
  EXPECT_EQ(handle.running_var->to_vector<float>(), norm.running_var->to_vector<float>());
  EXPECT_EQ(copy.num_batches_tracked->item<std::int64_t>(), 0);
  EXPECT_EQ(copy.running_var->to_vector<float>(), (std::vector<float>{1, 1}));

  nn::BatchNorm1d loaded(2, {.device = test_device()});
  loaded.load_state_dict(norm.state_dict());
  EXPECT_EQ(loaded.running_mean->to_vector<float>(), norm.running_mean->to_vector<float>());
  EXPECT_EQ(loaded.num_batches_tracked->item<std::int64_t>(), 1);
}

TEST(DropoutLayers, DropWholeChannels) {
  manual_seed(4);
  nn::Dropout2d drop(0.25);
  const Tensor x = ones({40, 50, 3, 2}, {.device = test_device()});
  const std::vector<float> values = drop(x).to_vector<float>();
  int dropped = 0;
  for (std::size_t i = 0; i < values.size(); i += 6) {
    for (std::size_t k = 1; k < 6; ++k) ASSERT_EQ(values[i + k], values[i]);
    EXPECT_TRUE(values[i] == 0 || std::fabs(values[i] - 4.0f / 3) < 1e-6f) << values[i];
    dropped += values[i] == 0 ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 500, 80);  // out of 2,000 channels, more than four deviations
  EXPECT_NE(drop(x).to_vector<float>(), values);
  EXPECT_EQ(drop(ones({2, 3, 4}, {.device = test_device()})).shape(), (Shape{2, 3, 4}));
  drop.eval();
  EXPECT_EQ(drop(x).to_vector<float>(), std::vector<float>(values.size(), 1.0f));
}

struct Net : nn::Module {
  nn::Conv2d conv1{1, 8, 3, {.padding = 1}};
  nn::Conv2d conv2{8, 16, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm2d norm{16};
  nn::Dropout drop{0.25};
  nn::Linear fc1{16 * 2 * 2, 12};
  nn::Linear fc2{12, 10};

  Net() {
    add("conv1", conv1);
    add("conv2", conv2);
    add("norm", norm);
    add("drop", drop);
    add("fc1", fc1);
    add("fc2", fc2);
  }

  Tensor forward(const Tensor& x) override {
    Tensor h = max_pool2d(conv1(x).relu(), 2);
    h = max_pool2d(norm(conv2(h)).relu(), 2);
    return fc2(drop(fc1(h.flatten(1)).relu()));
  }
};

struct Steps {
  explicit Steps(nn::Module& m) : model(m), optimizer(m.parameters(), {.lr = 1e-2}) {}
  void run(int count) {
    for (int i = 0; i < count; ++i) {
      optimizer.zero_grad();
      loss = cross_entropy(model(x), y);
      loss.backward();
      optimizer.step();
    }
  }
  nn::Module& model;
  optim::Adam optimizer;
  Tensor x = on_device(randn({8, 1, 8, 8})).eval();
  Tensor y = on_device(randint(10, {8})).eval();
  Tensor loss;
};

// Statistics are part of the step: one plan, known after the first steps, and nothing is read back.
TEST(ConvNets, AStepIsOneKnownPlan) {
  manual_seed(2);
  Net model;
  model.to(test_device());
  Steps steps(model);
  steps.run(1);
  const double first = steps.loss.item();
  steps.run(3);
  const Counters before = counters();
  steps.run(4);
  const Counters after = counters();
  EXPECT_EQ(after.plans_built, before.plans_built);
  EXPECT_EQ(after.submits, before.submits + 4);
  EXPECT_EQ(after.compilations, before.compilations);
  EXPECT_EQ(after.bytes_to_host, before.bytes_to_host);
  EXPECT_EQ(model.norm.num_batches_tracked->item<std::int64_t>(), 8);
  steps.run(30);
  EXPECT_LT(steps.loss.item(), first / 2);
}

TEST(ConvNets, AreSequential) {
  manual_seed(3);
  nn::Sequential model({{"conv", nn::Conv2d(1, 4, 3, {.padding = nn::Padding::same})},
                        {"norm", nn::BatchNorm2d(4, {.momentum = std::nullopt})},
                        {"act", nn::LeakyReLU(0.1)},
                        {"pool", nn::MaxPool2d(2)},
                        {"drop", nn::Dropout2d(0.1)},
                        {"down", nn::Conv2d(4, 8, 3, {.stride = 2, .padding = 1})},
                        {"group", nn::GroupNorm(2, 8)},
                        {"gelu", nn::GELU({.tanh = true})},
                        {"up", nn::ConvTranspose2d(8, 8, 2, {.stride = 2})},
                        {"shuffle", nn::PixelShuffle(2)},
                        {"same", nn::Identity()},
                        {"size", nn::Upsample({.scale = 2})},
                        {"mean", nn::AdaptiveAvgPool2d(2)},
                        {"flat", nn::Flatten()},
                        {"rms", nn::RMSNorm(8)},
                        {"head", nn::Linear(8, 10)}});
  model.to(test_device());
  const Names names = names_of(model);
  EXPECT_EQ(Names(names.begin(), names.begin() + 8),
            (Names{"conv.weight", "conv.bias", "norm.weight", "norm.bias", "norm.running_mean",
                   "norm.running_var", "norm.num_batches_tracked", "down.weight"}));
  Steps steps(model);
  steps.run(1);
  const double first = steps.loss.item();
  EXPECT_EQ(model(steps.x).shape(), (Shape{8, 10}));
  for (const Tensor& parameter : model.parameters())
    EXPECT_GT(parameter.grad().abs().max().item(), 0);
  const Counters before = counters();
  steps.run(40);
  EXPECT_LT(counters().plans_built, before.plans_built + 4);
  EXPECT_LT(steps.loss.item(), first / 2);
}

// The mixed precision of Autocast: products in bf16, statistics in f32.
TEST(ConvNets, RunUnderAutocast) {
  Net model;
  model.to(test_device());
  const Autocast amp(DType::bf16);
  Steps steps(model);
  steps.run(2);
  EXPECT_EQ(model(steps.x).dtype(), DType::bf16);
  EXPECT_EQ(model.norm.running_var->dtype(), DType::f32);
  EXPECT_EQ(model.conv1.weight->grad().dtype(), DType::f32);
  EXPECT_TRUE(std::isfinite(steps.loss.item()));
}

TEST(ConvNets, ThreadsShareAModelInEvalMode) {
  manual_seed(6);
  Net model;
  model.to(test_device());
  Steps steps(model);
  steps.run(2);  // the threads find parameters and statistics pending
  model.eval();
  const StateDict before = model.state_dict();
  const std::vector<float> expected = [&] {
    const NoGrad no_grad;
    return model(steps.x).to_vector<float>();
  }();
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& result : results) {
    threads.emplace_back([&, x = steps.x] {
      const NoGrad no_grad;
      for (int i = 0; i < 5; ++i) result = model(x).to_vector<float>();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) EXPECT_EQ(result, expected);
  for (const auto& [name, value] : model.state_dict())
    EXPECT_TRUE(value.eq(before.at(name)).all().item<bool>()) << name;
}

TEST(ConvNets, HaveASummary) {
  Net model;
  const nn::Summary summary = model.summary({1, 1, 8, 8});
  ASSERT_EQ(summary.rows.size(), 7u);
  EXPECT_EQ(summary.rows[1].kind, "Conv2d");
  EXPECT_EQ(summary.rows[1].outputs, std::vector<Shape>{Shape({1, 8, 8, 8})});
  EXPECT_EQ(summary.rows[3].kind, "BatchNorm2d");
  EXPECT_EQ(summary.rows[3].parameters, 32);
  EXPECT_EQ(model.norm.num_batches_tracked->item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace volta
