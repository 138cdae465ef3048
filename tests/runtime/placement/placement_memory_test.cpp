// Placement on a device without memory for operands or results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/pool_faults.h"
#include "runtime/placement/placements.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/async.h"
#include "volta/volta.h"

namespace volta {
namespace {

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
  submit(test_device());  // what an earlier test recorded, which might go on on the CPU
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

}  // namespace
}  // namespace volta
