// Limits the memory on the test device, for tests of running out of memory.
#pragma once

#include <cstdint>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {

// Allows the memory in use and 32 MiB more. It must be constructed first: it evaluates what is
// pending, unless that is to stay so.
class Scarcity {
 public:
  enum class Pending { IsEvaluated, Stays };
  explicit Scarcity(Pending pending = Pending::IsEvaluated) {
    if (pending == Pending::IsEvaluated) synchronize(test_device());
    empty_cache(test_device());
    set_memory_limit(test_device(),
                     memory_stats(test_device()).reserved + (std::uint64_t{32} << 20));
  }
  ~Scarcity() { set_memory_limit(test_device(), 0); }
  Scarcity(const Scarcity&) = delete;
  Scarcity& operator=(const Scarcity&) = delete;
};

}  // namespace volta
