// Iteration spaces of kernels: row-major dimensions, some of them reduced. Two spaces are one if
// they agree after cutting dimensions into factors, as a row of 12 and rows of 3 x 4 do.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/index_map.h"
#include "volta/export.h"
#include "volta/shape.h"

namespace volta::plan {

struct Space {
  std::vector<std::int64_t> dims;  // none of them 1
  std::vector<bool> reduced;       // per dim

  bool has_reduce() const;
  friend bool operator==(const Space&, const Space&) = default;
};

// The space that has both as coarser forms: every dimension of either is a product of neighbouring
// ones of the result. A space without reductions may cover all of the other's dimensions, or those
// that are kept. Nothing if there is no such space.
VOLTA_BACKEND_API std::optional<Space> common_space(const Space& a, const Space& b);

// The index of a shape laid over the space (all of it, or the dimensions kept): one expression per
// dimension, over the space's dims. Nothing if the shape does not fit.
VOLTA_BACKEND_API std::optional<IndexMap> place_whole(const Shape& shape, const Space& space);
VOLTA_BACKEND_API std::optional<IndexMap> place_kept(const Shape& shape, const Space& space);

}  // namespace volta::plan
