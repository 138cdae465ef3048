// Conformance of ordering and indexing: running sums, sorting, the largest k, taking along an axis,
// adding into rows.
#include "ops/conformance/conformance.h"
#include "support/errors.h"

namespace volta::conformance {
namespace {

// Calls change(row) with the elements along the axis, for every other index, and stores the row,
// whose length may have changed.
template <class Change>
Array changed_rows(const Array& x, int axis, std::int64_t length, Change change) {
  std::int64_t before = 1, after = 1;
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (i < axis) before *= x.shape[i];
    if (i > axis) after *= x.shape[i];
  }
  const std::int64_t extent = x.shape[axis];
  Array result;  // unrounded
  result.shape = x.shape.with(axis, length);
  result.dtype = x.dtype;
  result.values.resize(static_cast<std::size_t>(before * length * after));
  for (std::int64_t o = 0; o < before; ++o) {
    for (std::int64_t i = 0; i < after; ++i) {
      std::vector<double> row;
      for (std::int64_t k = 0; k < extent; ++k)
        row.push_back(x.values[static_cast<std::size_t>((o * extent + k) * after + i)]);
      change(row);
      for (std::int64_t k = 0; k < length; ++k)
        result.values[static_cast<std::size_t>((o * length + k) * after + i)] =
            row[static_cast<std::size_t>(k)];
    }
  }
  return result;
}

Array running_sum(const Array& x, int axis) {
  return changed_rows(x, axis, x.shape[axis], [](std::vector<double>& row) {
    std::partial_sum(row.begin(), row.end(), row.begin());
  });
}

// The positions of the elements of a row in stable order, with NaN as the greatest.
std::vector<std::int64_t> order_of(const std::vector<double>& row, bool descending) {
  std::vector<std::int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const double x = row[static_cast<std::size_t>(a)], y = row[static_cast<std::size_t>(b)];
    return descending ? less(y, x) : less(x, y);
  });
  return order;
}

Array order_along(const Array& x, int axis, std::int64_t count, bool descending) {
  Array result = changed_rows(x, axis, count, [&](std::vector<double>& row) {
    const std::vector<std::int64_t> order = order_of(row, descending);
    row.assign(order.begin(), order.end());
  });
  result.dtype = DType::i64;
  return result;
}

Array taken_along(const Array& x, const Array& index, int axis) {
  return made(index.shape, x.dtype, [&](Index i) {
    i[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(at(index, i));
    return at(x, i);
  });
}

void expect_sorted(const Array& x, int axis, bool descending) {
  const Array order = order_along(x, axis, x.shape[axis], descending);
  expect_result({x}, [&](const auto& in) { return argsort(in[0], axis, {descending}); }, order, {});
  expect_result({x}, [&](const auto& in) { return sort(in[0], axis, {descending}).indices; }, order,
                {});
  expect_result({x}, [&](const auto& in) { return sort(in[0], axis, {descending}).values; },
                taken_along(x, order, axis), {});
}

// ---- Running sums.

TEST(Conformance, CumulativeSum) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    if (!has(dtype)) continue;
    const Array x = numbers({5, 7}, 0, 1, dtype);
    for (const int axis : {0, 1}) {
      expect_result(
          {x}, [&](const auto& in) { return in[0].cumsum(axis); }, running_sum(x, axis),
          close_in(dtype));
    }
  }
  const Array counts = integers({3, 70}, -4, 9, DType::i32);
  Array sums = running_sum(counts, 1);
  sums.dtype = DType::i64;
  expect_result({counts}, [](const auto& in) { return cumsum(in[0], -1); }, sums, {});
  const Array flags = integers({300}, 0, 1, DType::boolean);
  sums = running_sum(flags, 0);
  sums.dtype = DType::i64;
  expect_result({flags}, [](const auto& in) { return in[0].cumsum(0); }, sums, {});
}

// One lane, several lanes, rounds with a carry, columns, and rows and columns split into chunks,
// with and without a remainder.
TEST(Conformance, CumulativeSumOfManyShapes) {
  std::vector<std::pair<Shape, int>> cases = {
      {{40, 20}, 1},   {{6, 33}, 1}, {{3, 1000}, 1},  {{2, 5000}, 1}, {{1000, 40}, 0},
      {{2, 17, 3}, 1}, {{20000}, 0}, {{1, 16384}, 1}, {{9973}, 0},    {{5003, 3}, 0},
      {{0, 4}, 1},     {{4, 0}, 1},  {{1, 1}, 0},     {{4, 1, 6}, 1}, {{2, 3, 300}, 2}};
  for (const auto& [shape, axis] : cases) {
    SCOPED_TRACE(to_string(shape));
    const Array x = numbers(shape, -1, 1);
    expect_result({x}, [&, a = axis](const auto& in) { return in[0].cumsum(a); },
                  running_sum(x, axis), {1e-4, 1e-4});
  }
}

TEST(Conformance, CumulativeSumOfExpressions) {
  const Array x = numbers({9, 50});
  // The sum is fused with operations before and after it, and with reductions of the same rows.
  const Array twice = mapped(x, [](double v) { return 2 * v; });
  expect_result({x}, [](const auto& in) { return (in[0] * 2).cumsum(1) + 1; },
                mapped(running_sum(twice, 1), [](double v) { return v + 1; }), {1e-5, 1e-5});
  const Array total_of = folded(x, {1}, true, total);
  const Array share = combined(x, total_of, [](double v, double t) { return v - t / 50; });
  expect_result({x}, [](const auto& in) { return (in[0] - in[0].mean(1, true)).cumsum(1); },
                running_sum(share, 1), {1e-5, 1e-5});
  expect_result({x}, [](const auto& in) { return in[0].cumsum(1).sum(1); },
                folded(running_sum(x, 1), {1}, false, total), {1e-5, 1e-4});
  expect_result({x}, [](const auto& in) { return in[0].t().cumsum(0).t(); }, running_sum(x, 1),
                {1e-5, 1e-5});
  // Rows that a kernel reads several times are scanned several times.
  for (const std::int64_t length : {5, 50, 300}) {
    const Array row = numbers({3, length}, -0.1, 0.1);
    const Array sums = running_sum(row, 1);
    const double n = static_cast<double>(length);
    const Array centred = combined(sums, folded(sums, {1}, true, total),
                                   [n](double v, double t) { return v - t / n; });
    expect_result({row},
                  [](const auto& in) {
                    const Tensor c = in[0].cumsum(1);
                    return c - c.mean(1, true);
                  },
                  centred, {1e-5, 1e-5});
    const Array powers = mapped(sums, [](double v) { return std::exp(v); });
    expect_result({row}, [](const auto& in) { return in[0].cumsum(1).softmax(1); },
                  combined(powers, folded(powers, {1}, true, total),
                           [](double v, double t) { return v / t; }),
                  {1e-5, 1e-5});
  }
  // An infinity affects only the elements after it.
  Array infinite = numbers({1, 16384}, 0, 1);
  infinite.values[9000] = kInf;
  expect_result({infinite}, [](const auto& in) { return in[0].cumsum(1); },
                running_sum(infinite, 1), {1e-4, 1e-4});
}

TEST(Conformance, CumulativeSumGradient) {
  expect_gradients({numbers({3, 5})}, [](const auto& in) { return in[0].cumsum(1); });
  expect_gradients({numbers({4, 3})}, [](const auto& in) { return in[0].cumsum(0).square(); });
  // From the end backwards, with several lanes and in chunks.
  for (const Shape& shape : {Shape{2, 100}, Shape{20000}, Shape{9973}}) {
    const int axis = shape.rank() - 1;
    const Array x = numbers(shape, -1, 1), w = numbers(shape, 0, 1, DType::f32, 0.11);
    const Tensor leaf = upload(x, true);
    leaf.cumsum(axis).backward(upload(w));
    const Array expected = changed_rows(w, axis, shape[axis], [](std::vector<double>& row) {
      std::partial_sum(row.rbegin(), row.rend(), row.rbegin());
    });
    expect_close(download(leaf.grad()), expected, {1e-5, 1e-3});
  }
}

// ---- Sorting.

TEST(Conformance, Sort) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    if (!has(dtype)) continue;
    SCOPED_TRACE(name_of(dtype));
    const int low = dtype == DType::u8 ? 0 : -20;
    expect_sorted(integers({4, 60}, low, 20, dtype), 1, dtype == DType::i64);
    if (thorough()) expect_sorted(integers({4, 60}, low, 20, dtype), 1, dtype != DType::i64);
  }
  const Array x = numbers({5, 3, 7});
  for (const int axis : {0, 1, 2}) expect_sorted(x, axis, axis == 1);
  expect_sorted(numbers({1, 1}), 1, false);
  expect_sorted(numbers({0, 4}), 1, false);
  expect_sorted(numbers({4, 0}), 1, true);
  expect_result({Array({}, {3})}, [](const auto& in) { return sort(in[0]).values; }, Array({}, {3}),
                {});
}

// Rows of several tiles are merged; an odd tile has no neighbour.
TEST(Conformance, SortOfLongRows) {
  for (const std::int64_t n : {193, 300, 2048, 2049, 7000}) {
    SCOPED_TRACE(n);
    expect_sorted(integers({2, n}, -300, 300, DType::f32, static_cast<int>(n)), 1, n % 2 == 0);
  }
  expect_sorted(integers({200000}, -100000, 100000, DType::i32), 0, false);
}

TEST(Conformance, SortKnowsSpecialNumbers) {
  const Array x({10}, {kNan, 1, -0.0, kInf, -kInf, 0.0, kNan, -1, 2, -0.0});
  expect_sorted(x, 0, false);
  expect_sorted(x, 0, true);
  if (has(DType::f16)) expect_sorted(x.as(DType::f16), 0, true);
  const Array extremes({5}, {2147483647, -2147483648.0, 0, -1, 1}, DType::i32);
  expect_sorted(extremes, 0, false);
  expect_sorted(extremes, 0, true);
}

TEST(Conformance, SortOfExpressions) {
  const Array x = numbers({4, 70});
  const Array negative = mapped(x, [](double v) { return -v; });
  expect_result({x}, [](const auto& in) { return sort(-in[0], 1).values * 2; },
                mapped(taken_along(negative, order_along(negative, 1, 70, false), 1),
                       [](double v) { return 2 * v; }),
                {});
}

TEST(Conformance, TopK) {
  for (const auto& [n, k] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {10, 3}, {100, 100}, {1000, 1}, {9000, 50}, {9000, 3000}}) {
    for (const bool largest : {true, false}) {
      if (!largest && !thorough()) continue;
      SCOPED_TRACE(n);
      const Array x = integers({3, n}, -500, 500, DType::f32);
      const Array order = order_along(x, 1, k, largest);
      const auto find = [&, count = k](const auto& in) { return topk(in[0], count, 1, {largest}); };
      expect_result({x}, [&](const auto& in) { return find(in).indices; }, order, {});
      expect_result({x}, [&](const auto& in) { return find(in).values; }, taken_along(x, order, 1),
                    {});
    }
  }
  const Array x = numbers({6, 4});
  expect_result({x}, [](const auto& in) { return topk(in[0], 2, 0).values; },
                taken_along(x, order_along(x, 0, 2, true), 0), {});
  expect_result({x}, [](const auto& in) { return topk(in[0], 0).values; }, numbers({6, 0}), {});
}

TEST(Conformance, OrderGradients) {
  const Array x = numbers({3, 7});
  expect_gradients({x}, [](const auto& in) { return sort(in[0], 1).values.square(); });
  expect_gradients({x}, [](const auto& in) { return sort(in[0], 0, {true}).values; });
  expect_gradients({x}, [](const auto& in) { return topk(in[0], 3).values.square(); });
  expect_gradients({x}, [](const auto& in) { return topk(in[0], 2, 0, {false}).values; });
}

// ---- Indexing.

TEST(Conformance, TakeAlongAxis) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i64}) {
    if (!has(dtype)) continue;
    const Array x = integers({4, 6, 5}, -9, 9, dtype);
    for (const int axis : {0, 1, 2}) {
      const Array index =
          integers(x.shape.with(axis, 3), 0, static_cast<int>(x.shape[axis]) - 1, DType::i64);
      expect_result({x, index}, [&](const auto& in) { return take_along_axis(in[0], in[1], axis); },
                    taken_along(x, index, axis), {});
    }
  }
  const Array index = integers({3, 9}, 0, 5, DType::i32);
  const Tensor positions = upload(index);
  expect_gradients({numbers({3, 6})},
                   [&](const auto& in) { return take_along_axis(in[0], positions, 1).square(); });
  expect_gradients({numbers({6, 9})},
                   [&](const auto& in) { return take_along_axis(in[0], positions, 0).square(); });
}

Array added(const Array& x, const Array& index, const Array& source) {
  Array result = x;
  const std::size_t d = source.values.size() / std::max<std::size_t>(index.values.size(), 1);
  for (std::size_t i = 0; i < index.values.size(); ++i) {
    for (std::size_t j = 0; j < d; ++j)
      result.values[static_cast<std::size_t>(index.values[i]) * d + j] += source.values[i * d + j];
  }
  return result;
}

TEST(Conformance, ScatterAdd) {
  const auto add = [](const auto& in) { return index_add(in[0], 0, in[1], in[2]); };
  struct Case {
    std::int64_t rows, ids, columns;
    int most;  // ids are from 0 to most
  };
  // Comparison with every id; segments; segments in chunks, with one id that has most rows.
  for (const Case& c : {Case{5, 9, 4, 4}, Case{300, 200, 20, 299}, Case{300, 2000, 7, 2},
                        Case{2000, 1500, 33, 1999}, Case{3000, 2000, 1, 2999}}) {
    SCOPED_TRACE(c.rows);
    const Array x = numbers({c.rows, c.columns});
    const Array index = integers({c.ids}, 0, c.most, DType::i64);
    const Array source = numbers({c.ids, c.columns});
    expect_result({x, index, source}, add, added(x, index, source), {1e-4, 1e-4});
  }
  const Array x = numbers({40, 3, 20}), index = integers({600}, 0, 39, DType::i32);
  const Array source = numbers({600, 3, 20});
  expect_result({x, index, source}, add, added(x, index, source), {1e-5, 1e-4});
  for (const DType dtype : {DType::f16, DType::i32}) {
    if (!has(dtype)) continue;
    const Array counts = integers({400, 10}, 0, 3, dtype), more = integers({70, 10}, 0, 2, dtype);
    const Array rows = integers({70}, 0, 9, DType::i64);
    expect_result({counts, rows, more}, add, added(counts, rows, more), {});
  }
  expect_result({numbers({3, 2}), Array({0}, {}, DType::i64), numbers({0, 2})}, add,
                numbers({3, 2}), {});
}

// Rounding errors do not accumulate along a chunk or over the chunks before it.
TEST(Conformance, LongRunningSumsAreExactToTheirDtype) {
  constexpr std::int64_t n = std::int64_t{1} << 22;
  const Tensor x = rand({n}, {.device = test_device(), .generator = Generator(3)}).eval();
  const std::vector<float> values = x.to_vector<float>(), sums = x.cumsum(0).to_vector<float>();
  double sum = 0, worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    worst = std::max(worst, std::abs(sums[i] - sum) / sum);
  }
  EXPECT_LE(worst, test_device().is_cpu() ? 1e-7 : 2e-6);
}

TEST(Conformance, ScatterAddGradient) {
  const Tensor few = upload(integers({6}, 0, 3, DType::i64));
  expect_gradients({numbers({4, 3}), numbers({6, 3})},
                   [&](const auto& in) { return index_add(in[0], 0, few, in[1]).square(); });
}

TEST(Errors, OrderAndIndexing) {
  using errors::expect;
  const Tensor x = zeros({3, 4}), ids = zeros({2}, {.dtype = DType::i64});
  expect<ShapeError>([&] { x.cumsum(2); }, "cumsum: axis 2 is out of range for [3, 4]");
  expect<ShapeError>([&] { sort(x, -3); }, "sort: axis -3 is out of range for [3, 4]");
  expect<ArgumentError>([&] { topk(x, 5); }, "topk: 5 of the elements along axis 1 of [3, 4]");
  expect<ArgumentError>([&] { topk(scalar(1), 0); }, "topk: 0 of the elements of a scalar");
  expect<ShapeError>([&] { sort(scalar(1), 1); }, "sort: axis 1 is out of range for []");
  expect<ShapeError>([&] { take_along_axis(x, zeros({2, 2}, {.dtype = DType::i64}), 1); },
                     "take_along_axis: indices [2, 2] do not fit [3, 4] along axis 1");
  expect<DTypeError>([&] { take_along_axis(x, x, 1); },
                     "take_along_axis: expected integer indices, got f32");
  expect<ShapeError>([&] { index_add(x, 0, ids, zeros({2, 3})); },
                     "index_add: [2, 3] at indices [2] does not go into [3, 4] along axis 0");
  expect<DTypeError>([&] { index_add(x, 0, ids, zeros({2, 4}, {.dtype = DType::f64})); },
                     "index_add: input is f32, source is f64");
  expect<ShapeError>([&] { index_add(zeros({0, 4}), 0, ids, zeros({2, 4})); },
                     "index_add: no elements along axis 0 of [0, 4]");
  expect<ArgumentError>([&] { sort(Tensor()); }, "sort: the input is not a tensor");
}

// An index out of range is reported by the next read; nothing else is affected.
TEST(Errors, IndicesOutOfRange) {
  for (const std::int64_t columns : {4, 400}) {
    const Tensor x = zeros({100, columns}, {.device = test_device()});
    const Tensor rows = ones({600, columns}, {.device = test_device()});
    std::vector<std::int64_t> at(600, 7);
    at[300] = 100;
    const Tensor ids = from_vector(at, {600}, {.device = test_device()});
    const Tensor sum = index_add(x, 0, ids, rows);
    EXPECT_THROW(sum.to_vector<float>(), IndexError);
    EXPECT_THROW((sum.sum() * 0).item(), IndexError);
    EXPECT_EQ((x.sum() * 0).item(), 0);  // the device still works
  }
  const Tensor x = zeros({3, 4}, {.device = test_device()});
  const Tensor bad = from_vector<std::int64_t>({0, 4, 1}, {3, 1}, {.device = test_device()});
  EXPECT_THROW(take_along_axis(x, bad, 1).to_vector<float>(), IndexError);
}

}  // namespace
}  // namespace volta::conformance
