// Checks that plans run on the device under test and nowhere else.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "runtime/runner.h"
#include "support/test_device.h"

namespace volta {

// Counts from its construction on.
class DeviceWork {
 public:
  // The number of plans that ran on the device under test.
  std::uint64_t runs() const { return plan::cache_stats(test_device()).runs - here_; }
  // Expects that none ran on the CPU instead.
  void expect_here() const {
    if (test_device().is_cpu()) return;
    EXPECT_EQ(plan::cache_stats(Device::cpu()).runs, cpu_) << "work meant for another device";
  }

 private:
  std::uint64_t here_ = plan::cache_stats(test_device()).runs;
  std::uint64_t cpu_ = plan::cache_stats(Device::cpu()).runs;
};

}  // namespace volta
