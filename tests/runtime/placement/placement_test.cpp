// Operations placed by a policy: where they run, what is moved for them, and that results stay the
// same.
#include "runtime/placement/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/pool_faults.h"
#include "ops/op_calls.h"
#include "runtime/placement/device_times.h"
#include "runtime/placement/placements.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/async.h"
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

// While it lives, devices have no memory for more than a MiB at once. This does not depend on the
// device's memory, which other processes use, or on the pool's cache, which earlier tests have
// filled.
class FullDevice {
 public:
  FullDevice() {
    refuse_allocations([](std::size_t bytes) { return bytes > std::size_t{1} << 20; });
    set_log_handler([this](LogLevel, std::string_view text) { told.emplace_back(text); });
  }
  ~FullDevice() {
    set_log_handler({});
    refuse_allocations(nullptr);
  }
  FullDevice(const FullDevice&) = delete;
  FullDevice& operator=(const FullDevice&) = delete;
  std::vector<std::string> told;
};

// Without memory on the device, an operation that may run on the CPU does.
TEST_F(Placements, WithoutMemoryOnTheDeviceTheCpuComputes) {
  const Tensor x = host_values({1 << 20});
  const FullDevice full;
  {
    const ExecutionContext context(options(Placement::automatic));
    const Tensor y = x * 2;
    EXPECT_EQ(y.device(), Device::cpu());
    EXPECT_EQ((x * 2).device(), Device::cpu());
  }
  int told = 0;
  for (const std::string& message : full.told)
    told += message.find("has no memory for its operands, it runs on the CPU") != std::string::npos;
  EXPECT_EQ(told, 2);  // once per source location
}

// ---- Results for which the device has no memory

constexpr std::int64_t kChunk = 4 << 20;  // elements that fill a chunk of the pool

// Makes the pool keep memory for this many chunks, so that what fits later depends only on this
// process.
bool can_reserve(int chunks) {
  try {
    std::vector<Tensor> held;
    for (int i = 0; i < chunks; ++i)
      held.push_back((host_values({kChunk}).to(test_device()) + 1).eval());
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

float worst(const std::vector<float>& found, const std::vector<float>& wanted) {
  EXPECT_EQ(found.size(), wanted.size());
  float most = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    most = std::max(most, std::abs(found[i] - wanted[i]));
  return most;
}

TEST_F(Placements, WithoutMemoryForAResultTheCpuComputes) {
  const Tensor x = host_values({kChunk}).to(test_device());
  std::vector<float> wanted = x.to_vector<float>();
  for (float& value : wanted) value = value * 2 + 1;
  std::size_t told = 0;
  for (const int stream : {0, 1}) {
    const StreamScope scope(stream);
    for (const Placement placement : {Placement::automatic, Placement::minimize_transfers}) {
      const ExecutionContext context(options(placement));
      Tensor y;
      double sum = 0;
      {
        const FullDevice full;
        y = x * 2;
        EXPECT_EQ(y.device(), test_device());
        y.eval_async().wait();
        EXPECT_EQ(y.to_vector_async<float>().get()[5] + 1, wanted[5]);
        const Tensor z = y + 1;  // of a value that only the host has
        EXPECT_EQ(worst(z.to_vector<float>(), wanted), 0);
        sum = z.sum().item();
        for (const std::string& text : full.told)
          told +=
              text.find("has no memory for its result, the CPU computes it") != std::string::npos;
      }
      // There is memory again: the value goes to the device, once.
      Tensor z;
      const auto again = [&] { (z = y + 1).eval(); };
      EXPECT_EQ(counted(again).bytes_to_device, sizeof(float) * kChunk);
      EXPECT_EQ(counted(again).bytes_to_device, 0u);
      EXPECT_NEAR(z.sum().item(), sum, 1e-5 * std::abs(sum));
      EXPECT_EQ(worst(z.to_vector<float>(), wanted), 0);
    }
  }
  EXPECT_EQ(told, 3u);  // once per source location
}

// If a limit leaves no room for measuring, placement by cost uses estimated figures.
TEST(PlacementByCost, WithoutMemoryToMeasureOperationsRunAllTheSame) {
  if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
  const testing_child::Folder cache;  // nothing was measured before
  testing_child::Environment environment = {{"VOLTA_TUNE", "off"}};
  if (!testing_child::is_child()) {
    environment["VOLTA_TEST_DEVICE"] = to_string(test_device());
    environment["VOLTA_CACHE_DIR"] = cache.path().string();
  }
  testing_child::in_child(environment, [] {
    (ones({4}, {.device = test_device()}) + 1).eval();
    const ExecutionContext context({.placement = Placement::by_cost, .gpu = test_device()});
    const FullDevice full;
    const Tensor x = host_values({64});
    for (int i = 0; i < 3; ++i) EXPECT_EQ((x * 2 + 1).to_vector<float>().size(), 64u);
    ASSERT_EQ(full.told.size(), 1u);
    EXPECT_EQ(full.told[0].find(to_string(test_device()) +
                                ": placement by cost goes by figures that were not measured: "),
              0u)
        << full.told[0];
    EXPECT_THROW(placement_figures(test_device()), OutOfMemory);
  });
}

// A program that names or forces the device gets an error when it is full, and nothing is lost.
TEST_F(Placements, WithoutMemoryWhereTheDeviceIsNamedIsAnError) {
  const Tensor x = host_values({kChunk}).to(test_device());
  for (const Placement placement : {Placement::as_written, Placement::force_gpu}) {
    const ExecutionContext context(options(placement));
    const Tensor y = x * 2;
    {
      const FullDevice full;
      EXPECT_THROW(y.eval(), OutOfMemory);
    }
    EXPECT_EQ(y.to_vector<float>()[5], x.to_vector<float>()[5] * 2);
  }
}

// The CPU computes a step that does not fit, whether or not its forward part was read before, and
// later steps that fit continue from there.
TEST_F(Placements, TrainingGoesOnWithoutMemory) {
  if (!can_reserve(6)) GTEST_SKIP() << "other processes have the device's memory";
  const auto trained = [](bool looks, bool full_device) {
    Tensor w = host_values({kChunk}).to(test_device());
    w.set_requires_grad();
    optim::SGD sgd({w}, {.lr = 0.125});
    const ExecutionContext context(options(Placement::automatic));
    for (int step = 0; step < 3; ++step) {
      std::unique_ptr<FullDevice> full;
      if (full_device && step == 1) full = std::make_unique<FullDevice>();
      const std::uint64_t before = counters().bytes_to_host;
      sgd.zero_grad();
      const Tensor squares = w * w, loss = squares.sum();
      if (looks) squares.eval();
      loss.backward();
      sgd.step();
      EXPECT_EQ(counters().bytes_to_host > before, full != nullptr) << step;
    }
    EXPECT_EQ(w.device(), test_device());
    return w.to_vector<float>();
  };
  const std::vector<float> wanted = trained(false, false);
  EXPECT_LT(std::abs(wanted[0] + 0.4f * 0.421875f), 1e-6f);
  for (const bool looks : {false, true}) EXPECT_LT(worst(trained(looks, true), wanted), 1e-6f);
}

TEST_F(Placements, AWrongIndexIsFoundByTheCpuToo) {
  const Tensor table = host_values({10, 4096}).to(test_device());
  const ExecutionContext context(options(Placement::automatic));
  for (const std::int64_t last : {9, 10}) {
    std::vector<std::int64_t> rows(1024, 3);
    rows.back() = last;
    const Tensor indices = from_vector(rows, {1024}, {.device = test_device()});
    const FullDevice full;
    const Tensor y = embedding(table, indices);
    if (last == 9) {
      EXPECT_EQ(y.to_vector<float>().back(), table.to_vector<float>().back());
      EXPECT_EQ(full.told.size(), 1u);
    } else {
      EXPECT_THROW(y.to_vector<float>(), IndexError);
      EXPECT_THROW(y.eval(), IndexError);
    }
  }
}

// ---- Every operation, with each part on any device

std::uint32_t drawn = 1;
DeviceEntry* anywhere(graph::OpId) {
  drawn = drawn * 1664525u + 1013904223u;
  return &device_entry((drawn >> 16 & 1) != 0 ? test_device() : Device::cpu());
}

struct Results {
  std::vector<std::vector<double>> values, gradients;
};
std::vector<double> numbers(const Tensor& tensor) {
  return tensor.to(DType::f64).to_vector<double>();
}
Results results_of(const calls::Call& call) {
  manual_seed(11);
  calls::Tensors inputs = calls::usual_inputs(call, Device::cpu());
  for (Tensor& input : inputs) {
    if (is_floating(input.dtype())) {
      input = input.detach();
      input.set_requires_grad();
    }
  }
  const calls::Tensors outputs = call.function(inputs);
  Results results;
  Tensor total;
  for (const Tensor& output : outputs) {
    results.values.push_back(numbers(output.detach().to(Device::cpu())));
    if (!is_floating(output.dtype()) || !output.requires_grad()) continue;
    const Tensor part = (output * output).sum();
    total = total.defined() ? total + part : part;
  }
  if (!total.defined()) return results;
  total.backward();
  for (const Tensor& input : inputs) {
    if (input.requires_grad() && input.grad().defined())
      results.gradients.push_back(numbers(input.grad().to(Device::cpu())));
  }
  return results;
}

void expect_near(const std::vector<std::vector<double>>& a,
                 const std::vector<std::vector<double>>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size()) << what;
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      if (std::isnan(a[i][k]) && std::isnan(b[i][k])) continue;
      if (a[i][k] == b[i][k]) continue;
      ASSERT_NEAR(a[i][k], b[i][k], 1e-4 * (1 + std::abs(a[i][k]))) << what << " " << i << " " << k;
    }
  }
}

TEST_F(Placements, EveryOperationInPiecesAnywhere) {
  const std::size_t stride = thorough() ? 1 : 24;
  const std::vector<calls::Call>& all = calls::all();
  for (std::size_t i = 0; i < all.size(); i += stride) {
    const calls::Call& call = all[i];
    SCOPED_TRACE(call.op);
    Results wanted;
    try {
      wanted = results_of(call);
    } catch (const Error&) {
      continue;  // there is no such gradient
    }
    const ExecutionContext context(options(Placement::automatic));
    graph::set_placement_chooser(anywhere);
    try {
      const Results results = results_of(call);
      expect_near(wanted.values, results.values, call.op);
      expect_near(wanted.gradients, results.gradients, call.op + " gradient");
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    graph::set_placement_chooser(nullptr);
  }
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
