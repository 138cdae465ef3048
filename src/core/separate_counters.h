// Counting work that does not belong to the program.
#pragma once

#include "core/counting.h"
#include "volta/export.h"

namespace volta {

// While a SeparateCounters lives, the work of its thread is counted in it instead of in
// volta::counters(). It serves trial runs of kernels that no program asked for, and must not record
// nodes. Other threads count as usual.
class SeparateCounters {
 public:
  SeparateCounters();
  ~SeparateCounters();
  SeparateCounters(const SeparateCounters&) = delete;
  SeparateCounters& operator=(const SeparateCounters&) = delete;

 private:
  LiveCounters counts_;
  LiveCounters* outer_;
};

}  // namespace volta
