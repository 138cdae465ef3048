// Follows views by index expressions.
#include "plan/lower/index_map.h"

#include <algorithm>
#include <cstdlib>

namespace volta::plan {
namespace {

// Divides a non-negative expression by n: terms that are multiples of n become the quotient, and
// the others must stay within [0, n).
bool divide(const Linear& e, Extent n, const std::vector<Extent>& extents, Linear& quotient,
            Linear& remainder, std::optional<AxisSplit>& split) {
  quotient = Linear(e.coefficient.size());
  remainder = Linear(e.coefficient.size());
  quotient.offset = e.offset / n;
  remainder.offset = e.offset % n;
  if (e.offset < 0) return false;
  Extent smallest = remainder.offset, largest = remainder.offset;
  for (std::size_t a = 0; a < e.coefficient.size(); ++a) {
    const Extent c = e.coefficient[a];
    if (c == 0 || extents[a] <= 1) continue;
    if (c % n == 0) {
      quotient.coefficient[a] = c / n;
    } else {
      const Extent reach = c * (extents[a] - 1), size = c < 0 ? -c : c;
      if ((c < 0 ? -reach : reach) >= n) {
        // The axis crosses a multiple of n; split it there if that is a whole number of steps.
        const Extent steps = n / size;
        if (n % c == 0 && extents[a] % steps == 0) split = AxisSplit{a, steps};
        return false;
      }
      remainder.coefficient[a] = c;
      (c < 0 ? smallest : largest) += reach;
    }
  }
  return smallest >= 0 && largest < n;
}

// Groups dimensions where products of sizes agree: a run of the view's dimensions becomes one
// number, which is then divided into the operand's dimensions.
bool regroup(const Shape& from, const Shape& to, const IndexMap& index,
             const std::vector<Extent>& extents, IndexMap& result,
             std::optional<AxisSplit>& split) {
  const std::size_t axes = extents.size();
  result = to.per_axis(Linear(axes));
  if (from.numel() == 0) return true;
  int i = 0, j = 0;
  while (i < from.rank() || j < to.rank()) {
    // One group: dimensions [i, i2) of the view and [j, j2) of the operand.
    int i2 = i, j2 = j;
    Extent p = 1, q = 1;
    if (i2 < from.rank()) p *= from[i2++];
    if (j2 < to.rank()) q *= to[j2++];
    while (p != q) {
      if (p < q) {
        p *= from[i2++];
      } else {
        q *= to[j2++];
      }
    }
    Linear number(axes);
    for (int d = i; d < i2; ++d) {
      for (auto& c : number.coefficient) c *= from[d];
      number.offset *= from[d];
      number.add(index[d], 1);
    }
    for (int d = j2 - 1; d > j; --d) {
      if (to[d] == 1) continue;
      Linear quotient, remainder;
      if (!divide(number, to[d], extents, quotient, remainder, split)) return false;
      result[d] = remainder;
      number = quotient;
    }
    if (j < j2) result[j] = number;
    i = i2;
    j = j2;
  }
  return true;
}

}  // namespace

bool Linear::is_zero() const {
  return offset == 0 &&
         std::all_of(coefficient.begin(), coefficient.end(), [](Extent c) { return c == 0; });
}

void Linear::add(const Linear& other, Extent factor) {
  for (std::size_t a = 0; a < coefficient.size(); ++a)
    coefficient[a] += factor * other.coefficient[a];
  offset += factor * other.offset;
}

std::optional<IndexMap> through_view(const Value& view, const Shape& operand, const IndexMap& index,
                                     const std::vector<Extent>& extents,
                                     std::vector<LinearBound>& bounds,
                                     std::optional<AxisSplit>& split) {
  IndexMap result;
  switch (view.kind) {
    case ValueKind::Reshape:
      if (!regroup(view.shape, operand, index, extents, result, split)) return std::nullopt;
      return result;
    case ValueKind::Permute:
      result.assign(index.size(), Linear(extents.size()));
      for (const AxisId d : index.ids()) {
        const std::int64_t axis = view.attrs[d.index()];
        result[axis] = index[d];
      }
      return result;
    case ValueKind::Expand:
      result = index;
      for (int d = 0; d < operand.rank(); ++d) {
        if (operand[d] == 1) result[d] = Linear(extents.size());
      }
      return result;
    case ValueKind::Shrink:
      result = index;
      for (const AxisId d : index.ids()) result[d].offset += view.attrs[d.index()];
      return result;
    case ValueKind::Affine: {
      const Extent* row = view.attrs.data();
      for (int d = 0; d < operand.rank(); ++d, row += 1 + index.size()) {
        Linear& e = result.emplace_back(extents.size());
        e.offset = row[0];
        for (const AxisId k : index.ids()) {
          if (row[1 + k] != 0) e.add(index[k], row[1 + k]);
        }
      }
      return result;
    }
    case ValueKind::Pad:
      result = index;
      for (const AxisId d : index.ids()) {
        const Extent before = view.attrs[d.index()];
        result[d].offset -= before;
        if (before != 0 || operand[d] != view.shape[d]) bounds.push_back({result[d], operand[d]});
      }
      return result;
    default:
      return std::nullopt;
  }
}

Linear flatten(const IndexMap& index, const Shape& shape, std::size_t axes) {
  Linear number(axes);
  Extent stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    number.add(index[d], stride);
    stride *= greater(shape[d], 1);  // every axis counts, even if the shape is empty
  }
  return number;
}

ValueId reshape_base(const std::vector<Value>& values, ValueId id) {
  while (values[id.index()].kind == ValueKind::Reshape) {
    id = values[id.index()].in[0];
  }
  return id;
}

}  // namespace volta::plan
