// Draws statements that index, sort or compute running sums.
#include <algorithm>

#include "random_graph/random_graph_drawing.h"

namespace volta::random_graph {
namespace {

bool are_ids(const Array& x, std::int64_t n) {
  if (is_floating(x.dtype) || x.dtype == DType::boolean) return false;
  return std::all_of(x.at.begin(), x.at.end(), [&](const Num& id) {
    return id.e == 0 && id.v >= 0 && id.v < static_cast<double>(n);
  });
}

bool has_axes(const Variable& v) { return v.value.rank() > 0; }

}  // namespace

int Generator::new_ids(std::int64_t n, const Dims& dims) {
  Statement s;
  s.dims = dims;
  s.dtype = random_.pick(std::vector{DType::i64, DType::i64, DType::i32, DType::u8});
  if (n > 256 && s.dtype == DType::u8) s.dtype = DType::i64;
  s.number = {static_cast<double>(n), true, false};
  s.fill = Fill::indices;
  s.op = random_.chance(15) && n > 0 ? Op::randint : Op::data;
  return emit(s) ? next_ - 1 : -1;
}

// Integers in [0, n), from a held tensor or a new one.
int Generator::ids_below(std::int64_t n, const Dims* dims) {
  const int found = some([&](const Variable& v) {
    const Array& x = v.value;
    return (dims == nullptr || x.dims == *dims) && x.numel() <= 64 && are_ids(x, n);
  });
  if (found >= 0 && random_.chance(60)) return found;
  Dims wanted = dims != nullptr ? *dims : some_dims();
  if (numel_of(wanted) > 64) wanted = {7};
  return new_ids(n, wanted);
}

bool Generator::draw_embedding() {
  Statement s;
  s.op = Op::embedding;
  int table = some([](const Variable& v) { return v.value.rank() == 2 && v.value.dims[0] > 0; });
  if (table < 0) {
    table = leaf({5, random_.pick(extents_)}, some_float(), Fill::numbers, gradients_);
    if (table < 0) return false;
  }
  const int ids = ids_below(value_of(table).dims[0], nullptr);
  s.in = {table, ids};
  return ids >= 0 && emit(s);
}

bool Generator::draw_cumsum() {
  Statement s;
  s.op = Op::cumsum;
  s.in = {some(has_axes)};
  if (s.in[0] < 0) return false;
  s.dims = {some_axis(value_of(s.in[0]))};
  return emit(s);
}

// Inexact values may be sorted if their order is certain, which the reference knows.
bool Generator::draw_order() {
  Statement s;
  s.op = random_.pick(std::vector{Op::sort, Op::sort, Op::argsort, Op::topk, Op::topk});
  s.in = {some(has_axes)};
  if (s.in[0] < 0) return false;
  const Array& x = value_of(s.in[0]);
  const std::int64_t axis = some_axis(x), extent = x.dims[static_cast<std::size_t>(axis)];
  s.dims = {axis};
  s.flag = random_.chance(50);
  if (s.op == Op::topk) {
    s.dims.push_back(random_.below(extent + 1));
    if (s.dims[1] == 0 && random_.chance(95)) return false;
  }
  if (s.op != Op::argsort && random_.chance(60)) {
    Statement both = s;
    both.second = 0;  // emit() sets its number
    if (emit(both)) return true;
  }
  return emit(s);
}

bool Generator::draw_take_along() {
  Statement s;
  s.op = Op::take_along_axis;
  const int x = some(has_axes);
  if (x < 0) return false;
  Dims dims = value_of(x).dims;
  const std::int64_t axis = some_axis(value_of(x));
  std::int64_t& along = dims[static_cast<std::size_t>(axis)];
  const std::int64_t extent = along;
  int index = some([&](const Variable& v) {
    if (v.value.rank() != static_cast<int>(dims.size())) return false;
    Dims other = v.value.dims;
    other[static_cast<std::size_t>(axis)] = extent;
    return other == dims && are_ids(v.value, extent);
  });
  if (index < 0 || random_.chance(30)) {
    along = random_.chance(30) ? extent : random_.pick(extents_);
    if (numel_of(dims) > most_elements_) along = 1;
    if (extent == 0) along = 0;
    index = new_ids(extent, dims);
  }
  s.in = {x, index};
  s.dims = {axis};
  return index >= 0 && emit(s);
}

// Sometimes there are enough rows that they are added up in chunks.
bool Generator::draw_index_add() {
  Statement s;
  s.op = Op::index_add;
  const int x = some([](const Variable& v) {
    return v.value.rank() > 0 && v.value.dims[0] > 0 && v.value.dtype != DType::boolean;
  });
  if (x < 0) return false;
  Dims dims = value_of(x).dims;
  const std::int64_t rows = dims[0], width = value_of(x).numel() / rows;
  const DType dtype = value_of(x).dtype;
  int source = some([&](const Variable& v) {
    if (v.value.dtype != dtype || v.value.rank() != static_cast<int>(dims.size())) return false;
    return std::equal(dims.begin() + 1, dims.end(), v.value.dims.begin() + 1);
  });
  if (source < 0 || random_.chance(50)) {
    dims[0] =
        random_.chance(options_.large ? 12 : 0) ? 500 + random_.below(700) : random_.pick(extents_);
    if (dims[0] * width > 4 * most_elements_) dims[0] = 2;
    source = leaf(dims, dtype, Fill::numbers, gradients_ && random_.chance(50));
    if (source < 0) return false;
  }
  const Dims ids{value_of(source).dims[0]};
  const int index = ids[0] <= 64 ? ids_below(rows, &ids) : new_ids(rows, ids);
  s.in = {x, index, source};
  return index >= 0 && emit(s);
}

}  // namespace volta::random_graph
