// What planning looked at, counted: tests hold that it grows with the graph and no faster, which a
// clock on a shared machine cannot show.
#pragma once

#include <cstdint>

#include "volta/export.h"

namespace volta::plan {

// Values, operands and pairs looked at by the plans that this thread built, by phase.
struct Visits {
  std::uint64_t lowered = 0;   // values made, by every pass
  std::uint64_t marked = 0;    // while it is decided what lies in memory
  std::uint64_t walked = 0;    // from roots to what they read
  std::uint64_t paired = 0;    // parts that might be joined
  std::uint64_t searched = 0;  // for a way from one part to another
  std::uint64_t shared = 0;    // for values that kernels would each compute
  std::uint64_t merged = 0;    // steps, for those that run side by side
  std::uint64_t placed = 0;    // buffers, for room in the arena

  std::uint64_t groupings = 0;  // times that groups were made of all values
  std::uint64_t rounds = 0;     // times that roots were joined, for all groupings

  std::uint64_t total() const {
    return lowered + marked + walked + paired + searched + shared + merged + placed;
  }
};
VOLTA_BACKEND_API Visits& visits();

}  // namespace volta::plan
