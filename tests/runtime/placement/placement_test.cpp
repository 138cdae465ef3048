// Operations placed by a policy: where they run, what is moved for them, and that results stay the
// same.
#include "runtime/placement/placement.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/placement/device_times.h"
#include "runtime/placement/placements.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TEST(TimeCurves, AreStraightOnLogarithmicScales) {
  const TimeCurve curve{{{10, 1}, {1000, 100}, {100000, 100}}};
  EXPECT_DOUBLE_EQ(curve.seconds(0), 1);
  EXPECT_DOUBLE_EQ(curve.seconds(10), 1);
  EXPECT_NEAR(curve.seconds(100), 10, 1e-9);
  EXPECT_NEAR(curve.seconds(10000), 100, 1e-9);
  EXPECT_DOUBLE_EQ(curve.seconds(1e6), 1000);
  EXPECT_DOUBLE_EQ(TimeCurve().seconds(5), 0);
  const TimeCurve line = TimeCurve::of(1e-5, 1e9);
  for (const double amount : {1.0, 1e3, 1e5, 1e9}) {
    EXPECT_NEAR(line.seconds(amount), 1e-5 + amount / 1e9, 0.05 * line.seconds(amount));
  }
}

// Different machines run one product of matrices of 256 KiB, which are on the host.
TEST_F(Placements, DecisionsFollowTheFigures) {
  const auto runs_on = [](const PlacementFigures& figures) {
    set_placement_figures(test_device(), figures);
    const ExecutionContext context(options(Placement::by_cost));
    const Tensor a = host_values({256, 256}), b = host_values({256, 256});
    return a.matmul(b).device();
  };
  const PlacementFigures usual = round_figures();
  EXPECT_EQ(runs_on(usual), test_device());
  PlacementFigures slow_bus = usual;
  slow_bus.upload = TimeCurve::of(10e-6, 100e6);  // 5 ms, to save 0.8 ms
  EXPECT_EQ(runs_on(slow_bus), Device::cpu());
  PlacementFigures slow_gpu = usual;
  slow_gpu.gpu.products = TimeCurve::of(15e-6, 10e9);
  EXPECT_EQ(runs_on(slow_gpu), Device::cpu());
  PlacementFigures fast_cpu = usual;
  fast_cpu.cpu.products = TimeCurve::of(2e-6, 400e9);  // 42 us
  EXPECT_EQ(runs_on(fast_cpu), Device::cpu());
  fast_cpu.gpu.products = TimeCurve::of(1e-6, 2000e9);  // too little gain for the moves
  EXPECT_EQ(runs_on(fast_cpu), Device::cpu());
}

// A function takes the CPU ten times as long as other operations on the same bytes.
TEST_F(Placements, FunctionsCountForMoreThanTheirBytes) {
  PlacementFigures figures = round_figures();
  figures.upload = TimeCurve::of(20e-6, 100e9);
  set_placement_figures(test_device(), figures);
  const ExecutionContext context(options(Placement::by_cost));
  EXPECT_EQ((host_values({20000}) + 1).device(), Device::cpu());
  EXPECT_EQ(host_values({40000}).relu().device(), Device::cpu());
  EXPECT_EQ(host_values({40000}).tanh().device(), test_device());
  EXPECT_EQ(gelu(host_values({40000})).device(), test_device());
  EXPECT_EQ(softmax(host_values({4, 10000}), 1).device(), test_device());
  EXPECT_EQ(rand({40000}).device(), test_device());
}

// Values on the GPU are moved to the host if that is so much faster that the transfer pays off.
TEST_F(Placements, ValuesComeBackOnlyForMoreThanTheWayCosts) {
  PlacementFigures slow_gpu = round_figures();
  slow_gpu.gpu.products = TimeCurve::of(15e-6, 1e9);  // 17 ms per product
  for (const bool pays : {true, false}) {
    slow_gpu.download = TimeCurve::of(15e-6, pays ? 10e9 : 10e6);
    set_placement_figures(test_device(), slow_gpu);
    const Tensor a = host_values({256, 256}).to(test_device());
    const ExecutionContext context(options(Placement::by_cost));
    EXPECT_EQ(a.matmul(a).device(), pays ? Device::cpu() : test_device());
  }
}

TEST_F(Placements, NewTensorsAreMadeWhereTheyAreMadeSooner) {
  const ExecutionContext context(options(Placement::by_cost));
  EXPECT_EQ(rand({100}).device(), Device::cpu());
  EXPECT_EQ(rand({1000, 1000}).device(), test_device());
  EXPECT_EQ(rand({1000, 1000}, {.device = Device::cpu()}).device(), Device::cpu());
  // Tensors on the host stay there until an operation uses them.
  EXPECT_EQ(from_vector(std::vector<float>(1000000, 1.0f), {1000000}).device(), Device::cpu());
}

// A large operation, a small one and a large one: one upload, and nothing is downloaded before a
// read.
TEST_F(Placements, DataStaysWhereItIs) {
  for (const Placement placement : {Placement::by_cost, Placement::automatic}) {
    const Tensor x = host_values({500, 1000});
    double value = 0;
    const Counters moved = counted([&] {
      const ExecutionContext context(options(placement));
      const Tensor large = (x * 2 + 1).tanh();
      const Tensor small = large.mean() * 3 + 1;
      const Tensor rows = large.sum(1) / small;
      const Tensor again = (large * rows.unsqueeze(1)).relu().sum();
      for (const Tensor& each : {large, small, rows, again})
        EXPECT_EQ(each.device(), test_device());
      value = again.item();
    });
    EXPECT_EQ(moved.transfers, 2u);
    EXPECT_EQ(moved.bytes_to_device, 2'000'000u);
    EXPECT_EQ(moved.bytes_to_host, 4u);
    const Tensor large = (x * 2 + 1).tanh();
    const Tensor rows = large.sum(1) / (large.mean() * 3 + 1);
    EXPECT_NEAR(value, (large * rows.unsqueeze(1)).relu().sum().item(), 1e-3 * std::abs(value));
    // All operations are small, so nothing moves.
    const Tensor few = host_values({10});
    const Counters none = counted([&] {
      const ExecutionContext context(options(placement));
      EXPECT_EQ(((few * 2).exp().sum() + 1).device(), Device::cpu());
    });
    EXPECT_EQ(none.transfers, 0u);
  }
}

TEST_F(Placements, UsingAValueAgainMovesNothing) {
  const Tensor w = host_values({256, 256}), x = host_values({256, 256});
  const Counters moved = counted([&] {
    const ExecutionContext context(options(Placement::automatic));
    for (int i = 0; i < 5; ++i) {
      const Tensor wide = x.expand({4, 256, 256});  // 4 * 65536 elements
      EXPECT_EQ((wide * w + static_cast<float>(i)).eval().device(), test_device());
    }
  });
  EXPECT_EQ(moved.transfers, 2u);
  EXPECT_EQ(moved.bytes_to_device, 2u * 256 * 256 * 4);
  EXPECT_EQ(w.device(), Device::cpu());  // the value is on both devices
  // A new value is a different one.
  Tensor changing = host_values({400, 400});
  const ExecutionContext context(options(Placement::automatic));
  const double before = (changing * 1).sum().item();
  changing.fill_(2.0f);
  EXPECT_NEAR((changing * 1).sum().item(), 320000, 1);
  EXPECT_NE(before, 320000);
}

// A product takes 107 us on the CPU and 16 us on the GPU, and moving its two operands takes 200 us.
// The third use pays off, including the savings missed by the first two.
TEST_F(Placements, WhatMovingWouldHaveSavedAddsUp) {
  PlacementFigures figures = round_figures();
  figures.upload = TimeCurve::of(100e-6, 1e12);  // 100 us each
  set_placement_figures(test_device(), figures);
  const ExecutionContext context(options(Placement::by_cost));
  const Tensor a = host_values({128, 128}), b = host_values({128, 128});
  std::vector<bool> there;
  for (int i = 0; i < 5; ++i) there.push_back(a.matmul(b).device() == test_device());
  // 91 us are saved each time and moving takes 200 us, so the third time the first two count.
  EXPECT_EQ(there, (std::vector<bool>{false, false, true, true, true}));
}

TEST_F(Placements, BySizeFromTheThresholdOn) {
  ExecutionOptions some = options(Placement::automatic);
  some.gpu_threshold = 1000;
  const ExecutionContext context(some);
  EXPECT_EQ((host_values({999}) + 1).device(), Device::cpu());
  EXPECT_EQ((host_values({1000}) + 1).device(), test_device());
  EXPECT_EQ((host_values({10, 1}) * host_values({1, 100})).device(), test_device());  // the result
  EXPECT_EQ(host_values({1000}).sum().device(), test_device());
  EXPECT_EQ(host_values({1000}).reshape({10, 100}).device(), Device::cpu());  // moves nothing
}

TEST_F(Placements, WhereMostBytesAre) {
  const Tensor large_there = host_values({1000}).to(test_device());
  const Tensor large_here = host_values({1000}), small_here = host_values({10});
  const ExecutionContext context(options(Placement::minimize_transfers));
  EXPECT_EQ((large_here * 2).sum().device(), Device::cpu());
  EXPECT_EQ((large_there * 2).sum().device(), test_device());
  const Counters moved = counted([&] {
    EXPECT_EQ((large_there.reshape({100, 10}) * small_here).eval().device(), test_device());
    EXPECT_EQ((large_here * large_there.sum()).eval().device(), Device::cpu());
  });
  EXPECT_EQ(moved.bytes_to_device, 40u);
  EXPECT_EQ(moved.bytes_to_host, 4u);
  EXPECT_EQ(rand({1000000}).device(), Device::cpu());
}

TEST_F(Placements, ByForce) {
  const Tensor here = host_values({10}), there = host_values({10}).to(test_device());
  {
    const ExecutionContext context(options(Placement::force_gpu));
    EXPECT_EQ((here + 1).device(), test_device());
    EXPECT_EQ((here + there).device(), test_device());
    EXPECT_EQ(rand({3}).device(), test_device());
    EXPECT_EQ(here.device(), Device::cpu());
  }
  const ExecutionContext context(options(Placement::force_cpu));
  EXPECT_EQ((there + 1).device(), Device::cpu());
  EXPECT_EQ((here + there).device(), Device::cpu());
  EXPECT_EQ(rand({1000000}).device(), Device::cpu());
  ExecutionContext plain({.placement = Placement::as_written});
  EXPECT_EQ((there + 1).device(), test_device());
}

// Moving caches values: it never shows in what handles report, and threads do not disturb it.
TEST_F(Placements, SeveralThreadsUseOneValue) {
  const Tensor w = host_values({300, 300});
  const double expected = (w * w).sum().item();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const ExecutionContext context(options(Placement::force_gpu));
      for (int i = 0; i < 20; ++i) {
        if (std::abs((w * w).sum().item() - expected) > 1e-3 * expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// ---- Other readers of leaves and records

TEST_F(Placements, StretchesThatAreComputedAgainRunWhereTheyRan) {
  for (const Placement placement : {Placement::force_gpu, Placement::by_cost}) {
    PlacementFigures figures = round_figures();
    figures.upload = TimeCurve::of(100e-6, 1e12);  // pays off after a few steps
    set_placement_figures(test_device(), figures);
    const auto run = [&](bool placed) {
      Tensor w = host_values({96, 96});
      w.set_requires_grad();
      optim::SGD sgd({w}, {.lr = 0.01});
      const Tensor x = host_values({96, 96});
      const auto layer = [&](const Tensor& t) { return matmul(t, w).tanh(); };
      std::vector<double> losses;
      for (int i = 0; i < 5; ++i) {
        const ExecutionContext context(
            placed ? options(placement) : ExecutionOptions{.placement = Placement::as_written});
        sgd.zero_grad();
        const Tensor loss = (checkpoint(layer, checkpoint(layer, x)) + w).square().mean();
        loss.backward();
        sgd.step();
        losses.push_back(loss.item());
      }
      return losses;
    };
    const std::vector<double> wanted = run(false), losses = run(true);
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(losses[i], wanted[i], 1e-4) << i;
  }
}

TEST_F(Placements, ThreadsGiveOneLeafItsGradients) {
  for (int round = 0; round < 20; ++round) {
    Tensor w = host_values({64, 64});
    w.set_requires_grad();
    (w * 1).sum().backward();  // a gradient of ones on the CPU
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const ExecutionContext context(options(Placement::force_gpu));
        const Tensor x = ones({8, 64}).eval();
        ++ready;
        while (ready < 4) std::this_thread::yield();
        matmul(x, w).sum().backward();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(w.device(), test_device());
    EXPECT_EQ(w.grad().sum().item(), 64 * 64 * (1 + 4 * 8));
  }
}

TEST_F(Placements, WhatLooksIntoALeafStaysValid) {
  Tensor w = host_values({1000});
  w.set_requires_grad();
  const std::span<const float> look = w.span<float>();
  const float first = look[0], last = look[999];
  {
    const ExecutionContext context(options(Placement::force_gpu));
    EXPECT_EQ(grad((w * w).sum(), w).device(), Device::cpu());
    EXPECT_EQ(w.device(), Device::cpu());  // grad() moves nothing
    (w * w).sum().backward();
  }
  EXPECT_EQ(w.device(), test_device());
  std::vector<Tensor> others;
  for (int i = 0; i < 4; ++i) others.push_back(host_values({1000}, 100.0f));
  EXPECT_EQ(look[0], first);
  EXPECT_EQ(look[999], last);
}

TEST_F(Placements, PartsOfAParameterMoveItOnce) {
  Tensor w = host_values({64, 32});
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0.01});
  const Tensor x = host_values({4, 32});
  const ExecutionContext context(options(Placement::force_gpu));
  for (int i = 0; i < 4; ++i) {
    const Counters moved = counted([&] {
      sgd.zero_grad();
      (matmul(x, w.narrow(0, 0, 32)) * matmul(x, w.narrow(0, 32, 32))).sum().backward();
      sgd.step();
    });
    if (i > 0) {
      EXPECT_EQ(moved.transfers, 0u) << i;
    }
  }
  EXPECT_EQ(w.device(), test_device());
}

// Recurrent layers are Functions, so gradients reach the leaves directly.
TEST_F(Placements, RecurrentLayersMoveOnce) {
  ExecutionOptions some = options(Placement::automatic);
  some.gpu_threshold = 1000;
  const ExecutionContext context(some);
  nn::LSTM lstm(16, 16);
  optim::SGD sgd(lstm.parameters(), {.lr = 0.01});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = host_values({32, 16, 16});
    const Counters moved = counted([&] {
      sgd.zero_grad();
      lstm(x).output.sum().backward();
      sgd.step();
    });
    if (i > 0) {
      EXPECT_EQ(moved.transfers, 1u) << i;  // the batch
    }
  }
  EXPECT_EQ(lstm.device(), test_device());
}

// A hook, or an earlier part of the pass, may have the gradient on another device.
TEST_F(Placements, GradientsComeToTheirLeaf) {
  Tensor w = host_values({200, 10});
  w.set_requires_grad();
  optim::SGD sgd({w}, {.lr = 0.1});
  ExecutionOptions some = options(Placement::automatic);
  some.gpu_threshold = 1000;
  const ExecutionContext context(some);
  const Tensor small = w[0].square().sum(), large = (w * w).sum();
  large.backward();
  sgd.step();
  sgd.zero_grad();
  small.backward();
  EXPECT_EQ(w.grad().device(), w.device());
  sgd.step();
  const auto handle = w.register_hook([](const Tensor& g) { return zeros(g.shape()); });
  (w * w).sum().backward();
  EXPECT_EQ(w.grad().device(), w.device());
  sgd.step();
  EXPECT_EQ(w.device(), test_device());
}

// ---- The environment, and stored figures

TEST(PlacementByEnvironment, PlacesAnUnmodifiedProgram) {
  if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
  const testing_child::Folder folder;
  const std::string name = to_string(test_device());
  for (const std::string& placed : {name, "auto:" + name, std::string("cpu")}) {
    testing_child::in_child(
        {{"VOLTA_DEVICE", placed},
         {"VOLTA_TEST_DEVICE", name},
         {"VOLTA_CACHE_DIR", folder / "cache"}},
        [&] {
          const std::string given = std::getenv("VOLTA_DEVICE");
          const Device device = test_device();
          EXPECT_EQ(execution_options().placement, given == "cpu"  ? Placement::as_written
                                                   : given == name ? Placement::force_gpu
                                                                   : Placement::by_cost);
          if (given.starts_with("auto:")) {
            PlacementFigures figures = round_figures();
            set_placement_figures(device, figures);
          }
          const Tensor a = from_vector(std::vector<float>(512 * 512, 1.0f), {512, 512});
          const Tensor product = a.matmul(a);
          EXPECT_EQ(product.device(), given == "cpu" ? Device::cpu() : device);
          {
            // Does not change the placement.
            const ExecutionContext fast({.matmul = Precision::tf32});
            EXPECT_EQ(a.matmul(a).device(), product.device());
          }
          EXPECT_EQ(product.to_vector<float>()[7], 512);
          const Tensor few = tensor({1, 2, 3}) + 1;
          EXPECT_EQ(few.device(), given == name ? device : Device::cpu());
          EXPECT_EQ(nn::Linear(4, 4).weight->device(), few.device());
        });
  }
}

TEST(PlacementByEnvironment, AnotherProcessMeasuresNothing) {
  if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
  const testing_child::Folder folder;
  for (const char* measured : {"1", "0"}) {
    testing_child::in_child({{"VOLTA_TEST_DEVICE", to_string(test_device())},
                             {"VOLTA_CACHE_DIR", folder / "cache"},
                             {"MEASURED", measured}},
                            [&] {
                              const PlacementFigures figures = placement_figures(test_device());
                              EXPECT_EQ(graph::measurements() > 0,
                                        std::string_view(std::getenv("MEASURED")) == "1");
                              for (const TimeCurve* curve :
                                   {&figures.cpu.memory, &figures.cpu.products, &figures.gpu.memory,
                                    &figures.gpu.products, &figures.upload, &figures.download}) {
                                EXPECT_GE(curve->points.size(), 3u);
                                EXPECT_GT(curve->seconds(1e8), curve->seconds(1e3));
                              }
                              std::ostringstream text;
                              text << figures;
                              EXPECT_NE(text.str().find("gpu products"), std::string::npos);
                            });
  }
}

}  // namespace
}  // namespace volta
