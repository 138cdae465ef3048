// Naming devices, and absent devices. The tests work on machines with and without GPUs.
#include "volta/device.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <unordered_set>
#include <vector>

#include "backend/registry.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/counters.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/log.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta {
namespace {

template <class Exception, class Act>
std::string message_of(Act act) {
  try {
    act();
  } catch (const Exception& error) {
    return error.what();
  }
  return "(no exception of the expected type)";
}

TEST(Devices, TheCpuIsAlwaysThere) {
  const Device cpu;
  EXPECT_EQ(cpu, Device::cpu());
  EXPECT_EQ(cpu, Device::parse("cpu"));
  EXPECT_TRUE(cpu.is_cpu());
  EXPECT_FALSE(cpu.is_gpu());
  EXPECT_EQ(to_string(cpu), "cpu");
  EXPECT_FALSE(cpu.name().empty());
  EXPECT_GT(cpu.total_memory(), 0u);
  for (int i = 0; i < kDTypeCount; ++i) EXPECT_TRUE(cpu.supports(static_cast<DType>(i)));
  synchronize(cpu);
}

TEST(Devices, ListStartsWithTheCpuAndHasNoDuplicates) {
  const auto present = devices();
  ASSERT_FALSE(present.empty());
  EXPECT_EQ(present[0], Device::cpu());
  const std::unordered_set<Device> distinct(present.begin(), present.end());
  EXPECT_EQ(distinct.size(), present.size());
  for (const Device device : present) {
    std::ostringstream text;
    text << device;
    EXPECT_EQ(Device::parse(text.str()), device);
    EXPECT_FALSE(device.name().empty());
    EXPECT_TRUE(device.supports(DType::f32));
  }
}

TEST(Devices, PinnedTensorsAreEqualCopies) {
  const std::vector<float> values{1, -2, 3.5f, 0};
  const Tensor x = from_vector(values, {2, 2});
  const Tensor pinned = x.pin_memory();
  EXPECT_TRUE(pinned.device().is_cpu());
  EXPECT_EQ(pinned.shape(), x.shape());
  EXPECT_EQ(pinned.to_vector<float>(), values);
  EXPECT_EQ((pinned + 1).to_vector<float>(), (std::vector<float>{2, -1, 4.5f, 1}));
  for (const Device device : devices())
    EXPECT_EQ(pinned.to(device).to_vector<float>(), values) << to_string(device);
  if (const auto gpu = Device::gpu()) {
    EXPECT_EQ(message_of<DeviceError>([&] { x.to(*gpu).pin_memory(); }),
              "pin_memory: expected a tensor on cpu, got one on " + to_string(*gpu));
  }
}

TEST(Devices, ParseRefusesWhatIsNoDevice) {
  for (const char* text :
       {"", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:+1", "cuda1", "cuda: 1",
        "opencl:", "gpu:0", "metal", "cuda:99999999999", "best "})
    EXPECT_EQ(message_of<ArgumentError>([&] { Device::parse(text); }),
              "device: \"" + std::string(text) +
                  "\" is not a device; expected cpu, cuda[:N], opencl[:N], gpu or best");
}

TEST(Devices, AbsentOnesSayWhy) {
  for (const DeviceType type : {DeviceType::cuda, DeviceType::opencl}) {
    const std::string family = type == DeviceType::cuda ? "cuda" : "opencl";
    const std::string label = type == DeviceType::cuda ? "CUDA" : "OpenCL";
    const int count = device_count(type);
    EXPECT_EQ(why_absent(type).empty(), count > 0);
    const std::string reason = count > 0
                                   ? "there are " + std::to_string(count) + " " + label + " devices"
                                   : why_absent(type);
    for (const char* index : {":255", ":1000"}) {
      std::string message = family + index;
      EXPECT_EQ(message_of<DeviceError>([&] { Device::parse(family + index); }),
                message.append(": ").append(reason));
    }
    EXPECT_THROW(type == DeviceType::cuda ? Device::cuda(-1) : Device::opencl(-1), DeviceError);
    if (count > 0) {
      EXPECT_EQ(to_string(Device::parse(family)), family + ":0");
    } else {
      EXPECT_THROW(Device::parse(family), DeviceError);
    }
  }
}

TEST(Devices, GpuIsAGpu) {
  const auto gpu = Device::gpu();
  EXPECT_EQ(is_gpu_available(), gpu.has_value());
  EXPECT_EQ(Device::best(), gpu.value_or(Device::cpu()));
  if (!gpu) {
    EXPECT_EQ(device_count(DeviceType::cuda), 0);
    return;
  }
  const DeviceEntry& entry = device_entry(*gpu);
  EXPECT_TRUE(entry.backend.device_is_gpu(entry.index));
  if (device_count(DeviceType::cuda) > 0) {
    EXPECT_EQ(gpu->type(), DeviceType::cuda);
  }
}

TEST(Devices, MemoryStatisticsFollowThePool) {
  const Device cpu;
  DeviceEntry& entry = device_entry(cpu);
  const MemoryStats before = memory_stats(cpu);
  const Address memory = entry.pool.allocate(1000);
  EXPECT_EQ(memory_stats(cpu).in_use, before.in_use + 1024);
  entry.pool.release(memory);
  reset_peak_memory(cpu);
  EXPECT_EQ(memory_stats(cpu).peak, memory_stats(cpu).in_use);
  set_memory_limit(cpu, std::uint64_t{1} << 40);
  EXPECT_EQ(memory_stats(cpu).limit, std::uint64_t{1} << 40);
  set_memory_limit(cpu, before.limit);
  empty_cache(cpu);
  EXPECT_GE(memory_stats(cpu).reserved, memory_stats(cpu).in_use);
}

// One-time messages need a new process each. It exits with 0 if calling `act` twice logs `expected`
// messages at `level`.
template <class Act>
[[noreturn]] void exit_by_messages(LogLevel level, int expected, Act act) {
  int heard = 0;
  set_log_level(LogLevel::info);
  set_log_handler([&](LogLevel at, std::string_view message) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
    heard += at == level ? 1 : 0;
  });
  const bool right = act() && act();
  std::_Exit(right && heard == expected ? 0 : 1);
}

class DevicesDeathTest : public testing::Test {
 protected:
  DevicesDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(DevicesDeathTest, BestSaysOnceThatItFellBack) {
  EXPECT_EXIT(exit_by_messages(LogLevel::info, is_gpu_available() ? 0 : 1,
                               [] { return Device::best().is_cpu() != is_gpu_available(); }),
              testing::ExitedWithCode(0), is_gpu_available() ? "" : "no GPU found, using the CPU");
}

TEST_F(DevicesDeathTest, ParseGpuWarnsOnceThatItFellBack) {
  EXPECT_EXIT(exit_by_messages(LogLevel::warning, is_gpu_available() ? 0 : 1,
                               [] { return Device::parse("gpu").is_cpu() != is_gpu_available(); }),
              testing::ExitedWithCode(0), is_gpu_available() ? "" : "no GPU found, using the CPU");
}

TEST_F(DevicesDeathTest, FallbackTurnsAnAbsentDeviceIntoTheCpu) {
  EXPECT_EXIT(exit_by_messages(LogLevel::warning, 1,
                               [] {
                                 setenv("VOLTA_FALLBACK", "cpu", 1);
                                 return Device::cuda(254) == Device::cpu();
                               }),
              testing::ExitedWithCode(0), "cuda:254: .*; using the CPU");
}

TEST_F(DevicesDeathTest, TheEnvironmentNamesTheBest) {
  const auto chosen = [](const char* name) {
    setenv("VOLTA_DEVICE", name, 1);
    return Device::best();
  };
  EXPECT_EXIT(
      exit_by_messages(LogLevel::info, 0, [&] { return chosen("cpu").is_cpu() && !Device::gpu(); }),
      testing::ExitedWithCode(0), "");
  const std::string here = to_string(test_device());
  EXPECT_EXIT(exit_by_messages(LogLevel::info, 0,
                               [&] {
                                 return chosen(here.c_str()) == test_device() &&
                                        Device::gpu().has_value() == test_device().is_gpu();
                               }),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_by_messages(LogLevel::info, 0,
                               [&] {
                                 try {
                                   chosen("cuda:254");
                                 } catch (const DeviceError&) {
                                   return true;
                                 }
                                 return false;
                               }),
              testing::ExitedWithCode(0), "");
}

// The first call that needs the device names the wrong variable and its valid values.
TEST(Devices, AWrongNameInTheEnvironmentIsTold) {
  const std::string expected = "expected cpu, cuda[:N], opencl[:N], gpu, best, auto or auto:DEVICE";
  for (const char* value : {"gpu7", "auto:gpu7", "auto:", "auto:auto", "cuda:x", "opencl:-1"}) {
    testing_child::in_child({{"VOLTA_DEVICE", value}}, [&] {
      const std::string text = std::string("VOLTA_DEVICE=") + std::getenv("VOLTA_DEVICE") +
                               " names no device; " + expected;
      EXPECT_EQ(message_of<ArgumentError>([] { Device::best(); }), text);
      EXPECT_EQ(message_of<ArgumentError>([] { Device::gpu(); }), text);
      EXPECT_EQ(message_of<ArgumentError>([] { (rand({600, 600}) + 1).eval(); }), text);
    });
  }
}

TEST(Devices, AnAbsentDeviceInTheEnvironmentIsTold) {
  for (const char* value : {"cuda:254", "auto:opencl:254"}) {
    testing_child::in_child({{"VOLTA_DEVICE", value}}, [] {
      const std::string start = std::string("VOLTA_DEVICE=") + std::getenv("VOLTA_DEVICE") + ": ";
      const std::string told = message_of<DeviceError>([] { Device::best(); });
      EXPECT_TRUE(told.starts_with(start)) << told;
      EXPECT_NE(told.find(":254: "), std::string::npos) << told;
    });
  }
}

// Where tensors are created if no device is named.
TEST(PlacementScope, IsBySizeOrByForce) {
  const Device gpu = Device::gpu().value_or(Device::cpu());
  EXPECT_TRUE(zeros({1000, 1000}).device().is_cpu());
  {
    ExecutionContext automatic({.placement = Placement::automatic, .gpu_threshold = 1000});
    EXPECT_TRUE(randn({30, 33}).device().is_cpu());
    EXPECT_EQ(randn({25, 40}).device(), gpu);
    EXPECT_EQ(zeros({1000}).device(), gpu);
    EXPECT_TRUE(ones({1000}, {.device = Device::cpu()}).device().is_cpu());
    ExecutionContext back({.placement = Placement::force_cpu});
    EXPECT_TRUE(zeros({1000}).device().is_cpu());
  }
  {
    ExecutionContext forced({.placement = Placement::force_gpu});
    EXPECT_EQ(tensor({1, 2}).device(), gpu);
    EXPECT_EQ((arange(3) + 1).device(), gpu);
  }
  EXPECT_EQ(ExecutionOptions().gpu_threshold, 100'000);
}

}  // namespace
}  // namespace volta
