// Iteration spaces of kernels: row-major dimensions, some of which are reduced. Two spaces are
// compatible if they agree after splitting dimensions into factors, as [12] and [3, 4] do.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/lower/index_map.h"
#include "volta/export.h"

namespace volta::plan {

struct Space {
  std::vector<Extent> dims;   // no dimension is 1
  std::vector<bool> reduced;  // for each dimension, whether it is reduced

  bool has_reduce() const;
  friend bool operator==(const Space&, const Space&) = default;
};

// The common refinement of two spaces: every dimension of either one is a product of adjacent
// dimensions of the result. A space without reductions may cover all dimensions of the other one or
// only the kept ones. Returns nothing if there is no refinement.
VOLTA_BACKEND_API std::optional<Space> common_space(const Space& a, const Space& b);

// The product of the reduced dimensions, or of the kept ones.
Extent product(const Space& space, bool reduced);

// The index of a shape laid over the whole space, or over its kept dimensions: for each dimension
// of the shape, an expression in the dimensions of the space. Nothing if the shape does not fit.
VOLTA_BACKEND_API std::optional<IndexMap> place_whole(const Shape& shape, const Space& space);
VOLTA_BACKEND_API std::optional<IndexMap> place_kept(const Shape& shape, const Space& space);

}  // namespace volta::plan
