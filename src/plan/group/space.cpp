// Refines iteration spaces and lays shapes over them.
#include "plan/group/space.h"

#include <algorithm>

namespace volta::plan {
namespace {

struct Dim {
  Extent size;
  bool reduced;
};

Extent points_of(const std::vector<Dim>& dims) {
  Extent points = 1;
  for (const Dim& d : dims) points *= d.size;
  return points;
}

// The common refinement of two row-major factorings. With `roles`, the reduced flags must agree;
// otherwise the flags of `a` are kept.
std::optional<std::vector<Dim>> refine(std::vector<Dim> a, std::vector<Dim> b, bool roles) {
  const auto empty = [](const Dim& d) { return d.size == 0; };
  if (std::any_of(a.begin(), a.end(), empty) || std::any_of(b.begin(), b.end(), empty)) {
    // Sizes of 0 cannot be divided, so the dimensions must be identical.
    const bool same =
        std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Dim& left, const Dim& right) {
          return left.size == right.size && (!roles || left.reduced == right.reduced);
        });
    return same ? std::optional(a) : std::nullopt;
  }
  if (points_of(a) != points_of(b)) return std::nullopt;
  std::vector<Dim> result;
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (roles && a[i].reduced != b[j].reduced) return std::nullopt;
    const Extent outer = b[j].size < a[i].size ? b[j].size : a[i].size;
    if (a[i].size % outer != 0 || b[j].size % outer != 0) return std::nullopt;
    result.push_back({outer, a[i].reduced});
    a[i].size /= outer;
    b[j].size /= outer;
    if (a[i].size == 1) ++i;
    if (b[j].size == 1) ++j;
  }
  return i == a.size() && j == b.size() ? std::optional(result) : std::nullopt;
}

std::vector<Dim> dims_of(const Space& space) {
  std::vector<Dim> dims;
  for (std::size_t d = 0; d < space.dims.size(); ++d)
    dims.push_back({space.dims[d], space.reduced[d]});
  return dims;
}

Space space_of(const std::vector<Dim>& dims) {
  Space space;
  for (const Dim& d : dims) {
    space.dims.push_back(d.size);
    space.reduced.push_back(d.reduced);
  }
  return space;
}

// Refines the kept dimensions of `rows` by `plain`; the reduced dimensions stay where they are.
std::optional<Space> refine_kept(const Space& rows, const Space& plain) {
  std::vector<Dim> kept;
  const std::vector<Dim> all = dims_of(rows);
  for (const Dim& d : all) {
    if (!d.reduced) kept.push_back(d);
  }
  const auto finer = refine(kept, dims_of(plain), false);
  if (!finer) return std::nullopt;
  std::vector<Dim> result;
  std::size_t next = 0;
  for (const Dim& d : all) {
    if (d.reduced) {
      result.push_back(d);
      continue;
    }
    Extent left = d.size;
    do {
      const Dim& factor = (*finer)[next++];
      result.push_back(factor);
      left = factor.size == 0 ? Extent(1) : left / factor.size;
    } while (left > 1);
  }
  return space_of(result);
}

std::optional<IndexMap> place(const Shape& shape, const Space& space, bool whole) {
  const std::size_t axes = space.dims.size();
  IndexMap index;
  std::size_t axis = 0;
  const auto skip = [&] {
    while (!whole && axis < axes && space.reduced[axis]) ++axis;
  };
  for (const Extent size : shape) {
    Linear e(axes);
    if (size != 1) {
      std::vector<std::size_t> digits;
      Extent product = 1;
      do {
        skip();
        if (axis == axes) return std::nullopt;
        product *= space.dims[axis];
        digits.push_back(axis++);
      } while (product < size);
      if (product != size) return std::nullopt;
      Extent stride = 1;
      for (std::size_t k = digits.size(); k-- > 0;) {
        e.coefficient[digits[k]] = stride;
        stride *= space.dims[digits[k]];
      }
    }
    index.add(std::move(e));
  }
  skip();
  return axis == axes ? std::optional(std::move(index)) : std::nullopt;
}

}  // namespace

bool Space::has_reduce() const {
  return std::find(reduced.begin(), reduced.end(), true) != reduced.end();
}

Extent product(const Space& space, bool reduced) {
  Extent result = 1;
  for (std::size_t d = 0; d < space.dims.size(); ++d) {
    if (space.reduced[d] == reduced) result *= space.dims[d];
  }
  return result;
}

std::optional<Space> common_space(const Space& a, const Space& b) {
  if (a == b) return a;
  if (a.has_reduce() == b.has_reduce()) {
    const auto dims = refine(dims_of(a), dims_of(b), true);
    return dims ? std::optional(space_of(*dims)) : std::nullopt;
  }
  const Space& rows = a.has_reduce() ? a : b;
  const Space& plain = a.has_reduce() ? b : a;
  if (const auto dims = refine(dims_of(rows), dims_of(plain), false)) return space_of(*dims);
  return refine_kept(rows, plain);
}

std::optional<IndexMap> place_whole(const Shape& shape, const Space& space) {
  return place(shape, space, true);
}

std::optional<IndexMap> place_kept(const Shape& shape, const Space& space) {
  return place(shape, space, false);
}

}  // namespace volta::plan
