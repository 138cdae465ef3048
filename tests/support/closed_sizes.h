// While an object lives, every size needs a plan of its own, for tests that count plans or
// planning.
#pragma once

#include "runtime/structures.h"

struct ClosedSizes {
  ClosedSizes() { volta::plan::allow_open_sizes(false); }
  ~ClosedSizes() { volta::plan::allow_open_sizes(true); }
  ClosedSizes(const ClosedSizes&) = delete;
  ClosedSizes& operator=(const ClosedSizes&) = delete;
};
