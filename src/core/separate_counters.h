// Counting apart from the program.
#pragma once

#include "core/counting.h"
#include "volta/export.h"

namespace volta {

// While one lives, what its thread does is counted in it and not in volta::counters(): trials run
// kernels for which no program asked. What other threads do at the time counts as ever. For work
// that records no nodes.
class CountAside {
 public:
  CountAside();
  ~CountAside();
  CountAside(const CountAside&) = delete;
  CountAside& operator=(const CountAside&) = delete;

 private:
  LiveCounters counts_;
  LiveCounters* outer_;
};

}  // namespace volta
