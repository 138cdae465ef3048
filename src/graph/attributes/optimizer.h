// The scaling attribute that optimizer updates share with their expansions.
#pragma once

#include <cstdint>

namespace volta::graph {

// The last attribute of an update: which of GradScaler's tensors follow as its last inputs.
enum UpdateScaling : std::int64_t {
  kUnscaled,
  kChecks,             // whether a gradient is not finite; nothing is updated then
  kChecksAndUnscales,  // the same, and the inverse of the scale
};

}  // namespace volta::graph
