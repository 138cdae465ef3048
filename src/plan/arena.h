// Places the temporaries of a plan in the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/lower/extent.h"

namespace volta::plan {

// Memory that a plan needs between two of its steps.
struct Temporary {
  std::size_t first, last;  // the steps that use it, and all steps between them
  Extent bytes;
};

// The offsets of temporaries whose sizes are `bytes`: the largest first, each at the first address
// that is free during its lifetime. Returns the arena's size.
std::uint64_t place_temporaries(std::span<const Temporary> temporaries,
                                std::span<const std::uint64_t> bytes,
                                std::vector<std::uint64_t>& offsets);

}  // namespace volta::plan
