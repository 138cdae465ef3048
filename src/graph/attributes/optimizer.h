// What optimizer updates and their expansions agree on.
#pragma once

#include <cstdint>

namespace volta::graph {

// The last attribute of an update: what it has from GradScaler, as its last inputs.
enum UpdateScaling : std::int64_t {
  kUnscaled,
  kChecks,             // whether a gradient is not finite: then nothing changes
  kChecksAndUnscales,  // and the inverse of the scale
};

}  // namespace volta::graph
