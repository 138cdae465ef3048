// Counters of planning work. Tests use them to check that work grows linearly with the graph, which
// times on a shared machine cannot show.
#pragma once

#include <cstdint>

#include "volta/export.h"

namespace volta::plan {

// The values, operands and pairs visited by the plans that this thread built, by phase of planning.
struct Visits {
  std::uint64_t lowered = 0;   // values built, by all passes
  std::uint64_t marked = 0;    // visits to decide which values are stored
  std::uint64_t walked = 0;    // visits from roots to what they read
  std::uint64_t paired = 0;    // pairs of parts considered for joining
  std::uint64_t searched = 0;  // visits when searching for paths between parts
  std::uint64_t shared = 0;    // visits to evaluate values that several kernels would compute
  std::uint64_t merged = 0;    // steps visited for horizontal merging
  std::uint64_t placed = 0;    // buffers visited for placement in the arena

  std::uint64_t groupings = 0;  // number of times that all values were grouped
  std::uint64_t rounds = 0;     // rounds of joining, over all groupings

  std::uint64_t total() const {
    return lowered + marked + walked + paired + searched + shared + merged + placed;
  }
};
VOLTA_BACKEND_API Visits& visits();

}  // namespace volta::plan
