// Training under a placement does what a program that names the device does, and no more.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/placement/placements.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

struct Network {
  nn::Sequential model;
  std::unique_ptr<optim::Optimizer> optimizer;
  bool clips;
  // `plain` means SGD without clipping, which has fewer kernels than Adam with clipping.
  explicit Network(const std::function<nn::Sequential()>& make, bool plain = false)
      : model(make()), clips(!plain) {
    if (plain) {
      optimizer = std::make_unique<optim::SGD>(model.parameters(), optim::SGDOptions{.lr = 1e-2});
    } else {
      optimizer = std::make_unique<optim::Adam>(model.parameters(), optim::AdamOptions{.lr = 1e-2});
    }
  }
};

nn::Sequential mlp() {
  manual_seed(3);
  return nn::Sequential({nn::Linear(64, 96), nn::ReLU(), nn::Dropout(0.1), nn::Linear(96, 10)});
}
nn::Sequential cnn() {
  manual_seed(3);
  return nn::Sequential({nn::Conv2d(1, 4, 3, {.padding = 1}), nn::BatchNorm2d(4), nn::ReLU(),
                         nn::MaxPool2d(2), nn::Flatten(), nn::Linear(4 * 4 * 4, 10)});
}

struct Steps {
  std::vector<double> losses;
  std::vector<std::uint64_t> launches, transfers, bytes, submits;
};

// A program that names no device except through `place`, which explicit programs have.
Steps train(Network& network, const Shape& input, const std::function<Tensor(Tensor)>& place) {
  Steps steps;
  const std::vector<std::int64_t> labels(static_cast<std::size_t>(input[0]), 3);
  for (int i = 0; i < 6; ++i) {
    const Counters moved = counted([&] {
      const Tensor x = place(host_values(input, static_cast<float>(i)));
      const Tensor y = place(from_vector(labels, {input[0]}, {.device = Device::cpu()}));
      network.optimizer->zero_grad();
      const Tensor loss = cross_entropy(network.model(x), y);
      loss.backward();
      if (network.clips) nn::clip_grad_norm(network.model.parameters(), 1.0);
      network.optimizer->step();
      steps.losses.push_back(loss.item());
    });
    steps.launches.push_back(moved.launches + moved.library_calls);
    steps.transfers.push_back(moved.transfers);
    steps.bytes.push_back(moved.bytes_to_device + moved.bytes_to_host);
    steps.submits.push_back(moved.submits);
  }
  return steps;
}

class PlacedTraining : public Placements, public testing::WithParamInterface<Placement> {};

// After the first step everything is where an explicit program has it: not one more launch or
// transfer.
TEST_P(PlacedTraining, IsThatOfAProgramThatNamesTheDevice) {
  // The CPU is so slow that even these are worth moving.
  PlacementFigures figures = round_figures();
  figures.cpu = {TimeCurve::of(1e-3, 1e9), TimeCurve::of(1e-3, 1e9), TimeCurve::of(1e-3, 1e9)};
  set_placement_figures(test_device(), figures);
  const std::pair<nn::Sequential (*)(), Shape> cases[] = {{mlp, Shape{32, 64}},
                                                          {cnn, Shape{16, 1, 8, 8}}};
  for (const auto& [make, input] : cases) {
    manual_seed(3);
    Network explicitly(make);
    explicitly.model.to(test_device());
    manual_seed(4);
    const Steps wanted =
        train(explicitly, input, [](const Tensor& x) { return x.to(test_device()); });
    ExecutionOptions some = options(GetParam());
    some.gpu_threshold = 500;
    const ExecutionContext context(some);
    Network placed([&] {
      const ExecutionContext plain({.placement = Placement::as_written});
      return make();
    });
    manual_seed(4);
    const Steps steps = train(placed, input, [](const Tensor& x) { return x; });
    for (std::size_t i = 0; i < steps.losses.size(); ++i)
      EXPECT_EQ(steps.losses[i], wanted.losses[i]) << i;
    for (std::size_t i = 2; i < steps.losses.size(); ++i) {
      EXPECT_LE(steps.launches[i], wanted.launches[i]) << i;
      EXPECT_EQ(steps.transfers[i], wanted.transfers[i]) << i;
      EXPECT_EQ(steps.bytes[i], wanted.bytes[i]) << i;
    }
    for (const auto& [name, parameter] : placed.model.named_parameters()) {
      EXPECT_EQ(parameter.device(), test_device()) << name;
      EXPECT_EQ(parameter.grad().device(), test_device()) << name;
    }
    EXPECT_EQ(placed.model.device(), test_device());
  }
}
INSTANTIATE_TEST_SUITE_P(Policies, PlacedTraining,
                         testing::Values(Placement::automatic, Placement::by_cost,
                                         Placement::force_gpu));

// As measured on a machine with an NVIDIA H200, where small operations finish soon on the CPU, and
// every move of a few kB takes as long as four of them.
PlacementFigures measured_figures() {
  PlacementFigures figures;
  figures.cpu.memory.points = {{8.19e3, 1.5e-6},  {6.55e4, 2.8e-6},  {5.24e5, 7e-6},
                               {2.1e6, 8.8e-6},   {8.39e6, 18.6e-6}, {3.36e7, 137.5e-6},
                               {1.34e8, 582.8e-6}};
  figures.cpu.products.points = {{3.28e4, 2.5e-6},   {2.62e5, 6.9e-6},   {2.1e6, 41.5e-6},
                                 {1.68e7, 101.2e-6}, {1.34e8, 396.8e-6}, {1.07e9, 1663.4e-6}};
  figures.cpu.functions.points = {{1.02e3, 1.8e-6},  {8.19e3, 8.6e-6},  {6.55e4, 18e-6},
                                  {2.62e5, 18.9e-6}, {1.05e6, 64.4e-6}, {4.19e6, 253.8e-6}};
  figures.gpu.memory.points = {{2.1e6, 7.9e-6}, {8.39e6, 13.4e-6}, {3.36e7, 18.5e-6}};
  figures.gpu.products.points = {{3.28e4, 9.9e-6}, {2.62e5, 11.4e-6}, {2.1e6, 12.6e-6},
                                 {1.68e7, 15e-6},  {1.34e8, 21e-6},   {1.07e9, 71.4e-6}};
  figures.gpu.functions.points = {{2.62e5, 7.8e-6}, {1.05e6, 14.8e-6}, {4.19e6, 18.4e-6}};
  figures.upload.points = {{4.1e3, 8.6e-6}, {6.55e4, 18.1e-6}, {1.05e6, 106e-6}, {1.68e7, 787e-6}};
  figures.download.points = {
      {4.1e3, 7.2e-6}, {6.55e4, 11.4e-6}, {1.05e6, 91.9e-6}, {1.68e7, 774e-6}};
  return figures;
}

// After the first layers have moved, the whole step runs there: short operations, such as the loss
// of a few numbers, do not run on the CPU merely because it is no farther from their operands.
TEST_F(Placements, TheEndOfANetworkIsWhereItsBeginningIs) {
  const auto wide = [] {
    return nn::Sequential(
        {nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 256), nn::ReLU(), nn::Linear(256, 10)});
  };
  const auto images = [] {
    return nn::Sequential({nn::Conv2d(1, 16, 3, {.padding = 1}), nn::BatchNorm2d(16), nn::ReLU(),
                           nn::MaxPool2d(2), nn::Flatten(), nn::Linear(16 * 14 * 14, 10)});
  };
  const std::pair<std::function<nn::Sequential()>, Shape> cases[] = {
      {wide, Shape{128, 784}}, {images, Shape{64, 1, 28, 28}}};
  for (const auto& [make, input] : cases) {
    if (input.rank() > 2 && !thorough()) continue;  // saves kernels
    manual_seed(3);
    Network explicitly(make, true);
    explicitly.model.to(test_device());
    const Steps wanted =
        train(explicitly, input, [](const Tensor& x) { return x.to(test_device()); });
    set_placement_figures(test_device(), measured_figures());
    const ExecutionContext context(options(Placement::by_cost));
    manual_seed(3);
    Network placed(make, true);
    const Steps steps = train(placed, input, [](const Tensor& x) { return x; });
    for (std::size_t i = 3; i < steps.losses.size(); ++i) {
      EXPECT_EQ(steps.transfers[i], wanted.transfers[i]) << i;
      EXPECT_EQ(steps.bytes[i], wanted.bytes[i]) << i;
      EXPECT_EQ(steps.submits[i], wanted.submits[i]) << i;
      EXPECT_LE(steps.launches[i], wanted.launches[i]) << i;
    }
    EXPECT_EQ(placed.model.device(), test_device());
  }
}

// Parameters that are read through views and casts, and shared ones, move too, once.
TEST_F(Placements, ParametersBehindViewsMoveOnce) {
  const ExecutionContext context(options(Placement::force_gpu));
  Tensor w = host_values({24, 16});
  Tensor filter = host_values({16, 4, 3});
  w.set_requires_grad();
  filter.set_requires_grad();
  optim::SGD sgd({w, filter}, {.lr = 0.1});
  const Tensor x = host_values({2, 24}), signal = host_values({2, 4, 10});
  for (int i = 0; i < 4; ++i) {
    const Counters moved = counted([&] {
      sgd.zero_grad();
      const Autocast autocast(DType::bf16);
      const Tensor h = x.matmul(w).matmul(w.transpose(0, 1)).sum();
      const Tensor s = conv1d(signal, filter).to(DType::f32).sum();
      (h.to(DType::f32) + s).backward();
      sgd.step();
    });
    if (i == 0) {
      EXPECT_EQ(moved.bytes_to_device, 4u * (24 * 16 + 16 * 4 * 3 + 2 * 24 + 2 * 4 * 10));
    } else {
      EXPECT_EQ(moved.transfers, 0u) << i;
    }
    EXPECT_EQ(w.device(), test_device());
    EXPECT_EQ(filter.device(), test_device());
  }
}

// By cost, a parameter moves whatever it is read through, because its gradient stays where it moved
// to. A value computed from it gets its gradient back, over a transfer that costs more than is
// gained.
TEST_F(Placements, ParametersBehindViewsMoveByCost) {
  PlacementFigures figures = round_figures();
  figures.download = TimeCurve::of(0.2, 10e9);
  figures.cpu = {TimeCurve::of(2e-6, 50e9), TimeCurve::of(2e-6, 20e9), TimeCurve::of(2e-6, 10e9)};
  set_placement_figures(test_device(), figures);
  const ExecutionContext context(options(Placement::by_cost));
  const Tensor x = host_values({128, 128});
  struct Read {
    const char* what;
    Tensor (*value)(const Tensor& w);
    bool moves;
  };
  const Read reads[] = {
      {"w", [](const Tensor& w) { return w; }, true},
      {"transposed", [](const Tensor& w) { return w.t(); }, true},
      {"reshaped", [](const Tensor& w) { return w.reshape({64, 256}).reshape({128, 128}); }, true},
      {"converted", [](const Tensor& w) { return w.to(DType::bf16).to(DType::f32).t(); }, true},
      {"added", [](const Tensor& w) { return (w + w).t(); }, true},
      {"computed", [](const Tensor& w) { return w.tanh().t(); }, false}};
  for (const auto& [what, value, moves] : reads) {
    Tensor w = host_values({128, 128});
    w.set_requires_grad();
    for (int step = 0; step < 3; ++step) {
      const Counters moved = counted([&] {
        const Tensor y = x.matmul(value(w));
        EXPECT_EQ(y.device(), moves ? test_device() : Device::cpu()) << what << step;
        y.sum().backward();
        w.grad().eval();
      });
      EXPECT_EQ(moved.bytes_to_host, 0u) << what << step;
      if (step > 0) {
        EXPECT_EQ(moved.transfers, 0u) << what << step;
      }
      EXPECT_EQ(w.device(), moves ? test_device() : Device::cpu()) << what << step;
      w.zero_grad();
    }
  }
}

// Moving the weight would save 334 us per step and takes 900 us. At the third step the savings of
// the first two count, and the activations are not downloaded any more.
TEST_F(Placements, ParametersComeToTheActivationsOfADevice) {
  PlacementFigures figures = round_figures();
  figures.upload = TimeCurve::of(900e-6, 1e12);
  set_placement_figures(test_device(), figures);
  const ExecutionContext context(options(Placement::by_cost));
  Tensor w = host_values({128, 128});
  w.set_requires_grad();
  std::vector<bool> there;
  for (int step = 0; step < 5; ++step) {
    const Tensor h = host_values({128, 128}).to(test_device());
    const Counters moved = counted([&] {
      const Tensor y = h.matmul(w);
      there.push_back(y.device() == test_device());
      y.sum().backward();
      w.grad().eval();
    });
    EXPECT_EQ(moved.bytes_to_host, step < 2 ? 128u * 128 * 4 : 0u) << step;
    w.zero_grad();
  }
  EXPECT_EQ(there, (std::vector<bool>{false, false, true, true, true}));
  EXPECT_EQ(w.device(), test_device());
}

// A gradient from before the move, and optimizer state, move along.
TEST_F(Placements, MidwayThroughATraining) {
  Tensor w = host_values({40, 40});
  w.set_requires_grad();
  optim::Adam adam({w}, {.lr = 0.1});
  const Tensor x = host_values({8, 40});
  const auto loss = [&] { return x.matmul(w).square().mean(); };
  const auto step = [&] {
    adam.zero_grad();
    loss().backward();
    adam.step();
  };
  step();
  loss().backward();  // adds to a gradient that is on the CPU
  {
    const ExecutionContext context(options(Placement::force_gpu));
    adam.zero_grad();
    loss().backward();
    EXPECT_EQ(w.device(), test_device());
    EXPECT_EQ(w.grad().device(), test_device());
    adam.step();
    step();
  }
  EXPECT_EQ(w.device(), test_device());
  // The result equals that on the CPU alone.
  Tensor v = host_values({40, 40});
  v.set_requires_grad();
  optim::Adam plain({v}, {.lr = 0.1});
  for (int i = 0; i < 3; ++i) {
    plain.zero_grad();
    x.matmul(v).square().mean().backward();
    plain.step();
  }
  const auto a = w.to_vector<float>(), b = v.to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << i;
}

TEST_F(Placements, AccumulatedGradientsFollowTheirLeaf) {
  Tensor w = host_values({40});
  w.set_requires_grad();
  (w * 2).sum().backward();
  EXPECT_EQ(w.grad().device(), Device::cpu());
  const ExecutionContext context(options(Placement::force_gpu));
  (w * 3).sum().backward();
  EXPECT_EQ(w.device(), test_device());
  EXPECT_EQ(w.grad().device(), test_device());
  for (const float g : w.grad().to_vector<float>()) EXPECT_EQ(g, 5);
}

}  // namespace
}  // namespace volta
