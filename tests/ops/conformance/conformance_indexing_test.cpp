// Conformance of indexing: parts, integers, masks; gather, scatter and similar operations;
// triangles.
#include "ops/conformance/conformance.h"

namespace volta::conformance {
namespace {

const std::vector<DType>& dtypes() {
  static const std::vector<DType> all{DType::f32, DType::f64, DType::f16, DType::bf16,
                                      DType::i32, DType::i64, DType::u8,  DType::boolean};
  return all;
}
Array sample(const Shape& shape, DType dtype) {
  return is_floating(dtype) ? numbers(shape, -2, 2, dtype)
                            : integers(shape, 0, dtype == DType::boolean ? 1 : 100, dtype);
}
// Once per dtype, if kernels are cheap to compile.
template <class Body>
void for_dtypes(Body body) {
  for (const DType dtype : dtypes()) {
    if (!has(dtype) || (!thorough() && dtype != DType::f32)) continue;
    SCOPED_TRACE(name_of(dtype));
    body(dtype);
  }
}

Array ids(const Shape& shape, std::vector<double> values, DType dtype = DType::i64) {
  return {shape, std::move(values), dtype};
}
Tensor integer(std::initializer_list<double> values, const Shape& shape) {
  return tensor(values, shape, {.dtype = DType::i64, .device = test_device()});
}
Tensor flags(std::initializer_list<double> values, const Shape& shape) {
  return tensor(values, shape, {.dtype = DType::boolean, .device = test_device()});
}
std::int64_t wrapped(double index, std::int64_t size) {
  const auto i = static_cast<std::int64_t>(index);
  return i < 0 ? i + size : i;
}

// x as it is, transposed, repeated, and cut from a larger array, once each.
void for_layouts(const Array& x, const std::function<void(const Function&, const Array&)>& body) {
  const int rank = x.shape.rank();
  body([](const auto& in) { return in[0]; }, x);
  if (rank < 2 || !thorough()) return;
  Index order(static_cast<std::size_t>(rank));
  std::iota(order.rbegin(), order.rend(), 0);
  body([order](const auto& in) { return in[0].permute(order); }, permuted(x, order));
  body([](const auto& in) { return in[0].narrow(1, 1, in[0].size(1) - 2); },
       narrowed(x, 1, 1, x.shape[1] - 2));
  const Array row = narrowed(x, 0, 1, 1);
  body([&x](const auto& in) { return in[0].narrow(0, 1, 1).expand(x.shape); },
       expanded(row, x.shape));
}

// ---- Parts.

TEST(ConformanceIndexing, NumbersAndRanges) {
  const Array x = numbers({4, 6, 5});
  for_layouts(x, [&](const Function& layout, const Array& seen) {
    const std::int64_t last = seen.shape[0] - 1;
    const Array row = made(seen.shape.removed(0), seen.dtype,
                           [&](const Index& i) { return at(seen, Index{last, i[0], i[1]}); });
    expect_result({x}, [&](const auto& in) { return layout(in)[-1]; }, row, {});
    const Array corner = narrowed(narrowed(seen, 1, 1, 2), 2, 0, 3);
    expect_result(
        {x},
        [&](const auto& in) { return layout(in).index({ellipsis, Slice{1, 3}, Slice{{}, 3}}); },
        corner, {});
  });
  expect_result({x}, [](const auto& in) { return in[0][1][2][3]; },
                Array({}, {at(x, Index{1, 2, 3})}), {});
  const Array picked = made({1, 4, 3}, DType::f32,
                            [&](const Index& i) { return at(x, Index{i[1], 5, 4 - 2 * i[2]}); });
  expect_result(
      {x}, [](const auto& in) { return in[0].index({newaxis, Slice{}, -1, Slice{.step = -2}}); },
      picked, {});
  expect_result({x}, [](const auto& in) { return in[0].slice(1, 9, 12); }, numbers({4, 0, 5}), {});
}

TEST(ConformanceIndexing, RangesPassGradientsOn) {
  if (!thorough()) GTEST_SKIP() << "views, covered by slicing";
  expect_gradients({numbers({4, 5})}, [](const auto& in) { return in[0][2].square(); });
  expect_gradients({numbers({4, 5})}, [](const auto& in) {
    return in[0].index({Slice{1, {}, 2}, newaxis, Slice{.step = -1}}).square();
  });
}

// ---- Integers.

// x[a, b] by PyTorch's rules for two of three axes.
TEST(ConformanceIndexing, IntegersInEveryPlace) {
  const Array x = numbers({3, 4, 5});
  const Array a = ids({2, 1}, {0, -1}), b = ids({3}, {1, -4, 3});
  const auto element = [&](const Index& axes, const Index& i, std::int64_t kept, std::size_t one,
                           std::size_t two) {
    Index full(3);
    const std::size_t first = static_cast<std::size_t>(axes[0]),
                      second = static_cast<std::size_t>(axes[1]);
    full[first] =
        wrapped(a.values[static_cast<std::size_t>(i[one])], x.shape[static_cast<int>(first)]);
    full[second] =
        wrapped(b.values[static_cast<std::size_t>(i[two])], x.shape[static_cast<int>(second)]);
    full[3 - first - second] = kept;
    return at(x, full);
  };
  expect_result(
      {x, a, b}, [](const auto& in) { return in[0].index({in[1], in[2]}); },
      made({2, 3, 5}, DType::f32, [&](const Index& i) { return element({0, 1}, i, i[2], 0, 1); }),
      {});
  expect_result(
      {x, a, b}, [](const auto& in) { return in[0].index({Slice{}, in[1], in[2]}); },
      made({3, 2, 3}, DType::f32, [&](const Index& i) { return element({1, 2}, i, i[0], 1, 2); }),
      {});
  expect_result(
      {x, a, b}, [](const auto& in) { return in[0].index({in[1], Slice{}, in[2]}); },
      made({2, 3, 4}, DType::f32, [&](const Index& i) { return element({0, 2}, i, i[2], 0, 1); }),
      {});
  if (!thorough()) return;
  // A new axis separates the indices, a number does not.
  expect_result({x, a, b},
                [](const auto& in) { return in[0].index({in[1], newaxis, in[2], Slice{}}); },
                made({2, 3, 1, 5}, DType::f32,
                     [&](const Index& i) { return element({0, 1}, i, i[3], 0, 1); }),
                {});
  expect_result({x, b}, [](const auto& in) { return in[0].index({1, Slice{}, in[1]}); },
                made({4, 3}, DType::f32,
                     [&](const Index& i) {
                       return at(
                           x, Index{1, i[0], wrapped(b.values[static_cast<std::size_t>(i[1])], 5)});
                     }),
                {});
}

TEST(ConformanceIndexing, IntegersOfEveryLayoutAndDType) {
  const Array index = ids({2, 2}, {2, 0, -1, 1});
  const auto rows = [&](const Array& x) {
    return made({2, 2, x.shape[1]}, x.dtype, [&](const Index& i) {
      const auto row = wrapped(index.values[static_cast<std::size_t>(2 * i[0] + i[1])], x.shape[0]);
      return at(x, Index{row, i[2]});
    });
  };
  for_layouts(numbers({3, 5}), [&](const Function& layout, const Array& seen) {
    expect_result({numbers({3, 5}), index}, [&](const auto& in) { return layout(in)[in[1]]; },
                  rows(seen), {});
  });
  for_dtypes([&](DType dtype) {
    const Array x = sample({3, 5}, dtype);
    expect_result({x, index}, [](const auto& in) { return in[0][in[1]]; }, rows(x), {});
    expect_result({x, index.as(DType::i32)}, [](const auto& in) { return in[0][in[1]]; }, rows(x),
                  {});
  });
  expect_result({numbers({3, 5}), ids({0}, {})}, [](const auto& in) { return in[0][in[1]]; },
                numbers({0, 5}), {});
  expect_result({numbers({3, 0}), ids({2}, {0, 1})}, [](const auto& in) { return in[0][in[1]]; },
                numbers({2, 0}), {});
}

TEST(ConformanceIndexing, IntegersPassGradientsOn) {
  const Tensor a = integer({0, -1, 0}, {3}), b = integer({1, 2}, {2, 1});
  expect_gradients({numbers({3, 4})}, [&](const auto& in) { return in[0][a].square(); });
  if (!thorough()) return;
  expect_gradients({numbers({2, 3, 4})},
                   [&](const auto& in) { return in[0].index({Slice{}, b, a}).square(); });
  expect_gradients({numbers({3, 2, 4})},
                   [&](const auto& in) { return in[0].index({b, 1, Slice{1, 3}}).square(); });
}

// ---- Masks.

TEST(ConformanceIndexing, MasksPickWhatIsTrue) {
  const Array x = numbers({3, 4, 2});
  std::vector<double> positive;
  for (const double value : x.values)
    if (value > 0) positive.push_back(value);
  const Array found({static_cast<std::int64_t>(positive.size())}, positive);
  EXPECT_EQ(download(upload(x).index({upload(x) > 0})).values, found.values);
  EXPECT_EQ(download(masked_select(upload(x), upload(x) > 0)).values, found.values);
  const Tensor rows = flags({1, 0, 1}, {3}), columns = flags({0, 1, 1, 0}, {4});
  const Array two = made({2, 4, 2}, DType::f32,
                         [&](const Index& i) { return at(x, Index{2 * i[0], i[1], i[2]}); });
  expect_close(download(upload(x)[rows]), two, {});
  const Array inner = narrowed(x, 1, 1, 2);
  expect_close(download(upload(x).index({Slice{}, columns})), inner, {});
  const Array both = made({2, 2}, DType::f32,
                          [&](const Index& i) { return at(x, Index{2 * i[0], 1 + i[0], i[1]}); });
  expect_close(download(upload(x).index({rows, columns})), both, {});
  EXPECT_EQ(upload(x)[flags({0, 0, 0}, {3})].shape(), (Shape{0, 4, 2}));
  for_dtypes([&](DType dtype) {
    const Array y = sample({5}, dtype);
    const Tensor some = flags({1, 1, 0, 0, 1}, {5});
    expect_close(download(masked_select(upload(y), some)),
                 Array({3}, {y.values[0], y.values[1], y.values[4]}, dtype), {});
  });
}

TEST(ConformanceIndexing, MasksOfAGivenSizeNeedNoLook) {
  const Array x = numbers({300});
  const Tensor values = upload(x), mask = values > 1;
  std::vector<double> found, places;
  for (std::size_t i = 0; i < 300; ++i) {
    if (x.values[i] <= 1) continue;
    found.push_back(x.values[i]);
    places.push_back(static_cast<double>(i));
  }
  const std::uint64_t submits = counters().submits;
  const auto count = static_cast<std::int64_t>(found.size());
  const Tensor few = masked_select(values, mask, {.size = 10}),
               more = masked_select(values, mask, {.size = count + 2, .fill = -7}),
               where = nonzero(mask, {.size = count + 1, .fill = -1});
  EXPECT_EQ(counters().submits, submits);
  EXPECT_EQ(download(few).values, std::vector<double>(found.begin(), found.begin() + 10));
  found.insert(found.end(), {-7, -7});
  EXPECT_EQ(download(more).values, found);
  places.push_back(-1);
  EXPECT_EQ(download(where).values, places);
}

TEST(ConformanceIndexing, MasksPassGradientsOn) {
  const Tensor mask = flags({1, 0, 0, 1, 1, 0}, {2, 3});
  expect_gradients({numbers({2, 3})}, [&](const auto& in) {
    return masked_select(in[0], mask, {.size = 5, .fill = 2}).square();
  });
  expect_gradients({numbers({2, 3})},
                   [&](const auto& in) { return masked_fill(in[0], mask, 3).square(); });
  if (!thorough()) return;
  expect_gradients({numbers({2, 3}), numbers({})},
                   [&](const auto& in) { return masked_fill(in[0], mask, in[1]).square(); });
  // These operations evaluate the mask.
  const auto check = [](const Shape& shape, const Function& function) {
    const CheckReport report = check_gradients(function, {upload(numbers(shape).as(widest()))});
    EXPECT_TRUE(report.passed) << report.message;
  };
  check({2, 3}, [&](const auto& in) { return masked_select(in[0], mask).square(); });
  check({2, 3, 2}, [&](const auto& in) { return in[0][mask].square(); });
}

TEST(ConformanceIndexing, NonzeroTellsWhere) {
  for_dtypes([&](DType dtype) {
    Array x = sample({3, 4}, dtype);
    for (std::size_t i = 0; i < 12; i += 3) x.values[i] = 0;
    std::vector<double> expected;
    for (std::size_t i = 0; i < 12; ++i) {
      if (x.values[i] == 0) continue;
      expected.push_back(static_cast<double>(i / 4));
      expected.push_back(static_cast<double>(i % 4));
    }
    const Array found = download(nonzero(upload(x)));
    EXPECT_EQ(found.values, expected);
    EXPECT_EQ(found.dtype, DType::i64);
    EXPECT_EQ(found.shape, (Shape{static_cast<std::int64_t>(expected.size() / 2), 2}));
  });
  EXPECT_EQ(nonzero(upload(Array({4}, {kNan, 0, -0.0, -kInf}))).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(nonzero(zeros({0, 3}, {.device = test_device()})).shape(), (Shape{0, 2}));
  EXPECT_EQ(nonzero(ones({}, {.device = test_device()})).shape(), (Shape{1, 0}));
  EXPECT_EQ(nonzero(zeros({}, {.device = test_device()})).shape(), (Shape{0, 0}));
}

TEST(ConformanceIndexing, MaskedFillBroadcasts) {
  for_dtypes([&](DType dtype) {
    const Array x = sample({3, 4}, dtype), mask({4}, {1, 0, 0, 1}, DType::boolean);
    expect_result(
        {x, mask}, [](const auto& in) { return masked_fill(in[0], in[1], 1); },
        made({3, 4}, dtype, [&](const Index& i) { return at(mask, i) != 0 ? 1 : at(x, i); }), {});
  });
  const Array row = numbers({4}), wide({2, 1}, {1, 0}, DType::boolean);
  expect_result(
      {row, wide}, [](const auto& in) { return masked_fill(in[0], in[1], -kInf); },
      made({2, 4}, DType::f32, [&](const Index& i) { return i[0] == 0 ? -kInf : at(row, i); }), {});
}

// ---- Along an axis.

Array gathered(const Array& x, int axis, const Array& index) {
  return made(index.shape, x.dtype, [&](Index i) {
    const double to = at(index, i);
    i[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(to);
    return at(x, i);
  });
}
// Writes or adds the elements of source one after the other.
Array scattered(Array x, int axis, const Array& index, const Array& source, bool add) {
  for (std::int64_t n = 0; n < index.shape.numel(); ++n) {
    const Index from = index_of(n, index.shape);
    Index to = from;
    to[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(at(index, from));
    std::int64_t offset = 0;
    for (int d = 0; d < x.shape.rank(); ++d)
      offset = offset * x.shape[d] + to[static_cast<std::size_t>(d)];
    double& element = x.values[static_cast<std::size_t>(offset)];
    element = add ? element + at(source, from) : at(source, from);
  }
  return x;
}

TEST(ConformanceIndexing, GatherAndScatterAlongEachAxis) {
  const Shape whole{3, 4, 5}, part{2, 4, 3};
  for (const int axis : {1, 0, 2}) {
    if (axis != 1 && !thorough()) break;
    SCOPED_TRACE(axis);
    const auto high = static_cast<int>(whole[axis]) - 1;
    const Array x = numbers(whole), source = numbers({2, 4, 4}, -1, 1, DType::f32, 0.2);
    for (const Shape& shape : {part, whole.with(axis, 2)}) {
      const Array index = integers(shape, 0, high, DType::i64, axis);
      expect_result({x, index}, [&](const auto& in) { return gather(in[0], axis, in[1]); },
                    gathered(x, axis, index), {});
    }
    const Array index = integers(part, 0, high, DType::i64, axis);
    expect_result({x, index, source},
                  [&](const auto& in) { return scatter(in[0], axis, in[1], in[2]); },
                  scattered(x, axis, index, source, false), {});
    expect_result(
        {x, index, source}, [&](const auto& in) { return scatter_add(in[0], axis, in[1], in[2]); },
        scattered(x, axis, index, source, true), close_in(DType::f32));
    expect_result({x, index}, [&](const auto& in) { return scatter(in[0], axis, in[1], 7); },
                  scattered(x, axis, index, mapped(source, [](double) { return 7; }), false), {});
    const Array few = integers({3}, 0, high, DType::i32, axis);
    const Shape taken = whole.with(axis, 3);
    expect_result({x, few}, [&](const auto& in) { return index_select(in[0], axis, in[1]); },
                  made(taken, DType::f32,
                       [&](Index i) {
                         auto& along = i[static_cast<std::size_t>(axis)];
                         along =
                             static_cast<std::int64_t>(few.values[static_cast<std::size_t>(along)]);
                         return at(x, i);
                       }),
                  {});
    const Array rows = numbers(taken, -1, 1, DType::f32, 0.7);
    const Array wide = made(taken, DType::i64, [&](const Index& i) {
      return few.values[static_cast<std::size_t>(i[static_cast<std::size_t>(axis)])];
    });
    expect_result(
        {x, few, rows}, [&](const auto& in) { return index_add(in[0], axis, in[1], in[2]); },
        scattered(x, axis, wide, rows, true), close_in(DType::f32));
  }
}

TEST(ConformanceIndexing, GatherAndScatterOfEveryDType) {
  const Array index = integers({3, 4}, 0, 2, DType::i64);
  for_dtypes([&](DType dtype) {
    if (!thorough()) return;  // covered above
    const Array x = sample({3, 4}, dtype), source = sample({4, 5}, dtype);
    expect_result({x, index}, [](const auto& in) { return gather(in[0], 0, in[1]); },
                  gathered(x, 0, index), {});
    expect_result({x, index, source},
                  [](const auto& in) { return scatter(in[0], 0, in[1], in[2]); },
                  scattered(x, 0, index, source, false), {});
    if (dtype == DType::boolean || dtype == DType::u8) return;
    expect_result(
        {x, index, source}, [](const auto& in) { return scatter_add(in[0], 0, in[1], in[2]); },
        scattered(x, 0, index, source, true), close_in(dtype, 4));
  });
}

TEST(ConformanceIndexing, ManyElementsAreSorted) {
  const Array x = numbers({50, 40}), source = numbers({30, 40}, -1, 1, DType::f32, 0.2);
  const Array index = integers({30, 40}, 0, 49, DType::i64);
  expect_result({x, index, source}, [](const auto& in) { return scatter(in[0], 0, in[1], in[2]); },
                scattered(x, 0, index, source, false), {});
  expect_result(
      {x, index, source}, [](const auto& in) { return scatter_add(in[0], 0, in[1], in[2]); },
      scattered(x, 0, index, source, true), close_in(DType::f32, 4));
}

TEST(ConformanceIndexing, EmptyAndScalar) {
  const Array x = numbers({3, 4});
  const Array none = ids({0, 4}, {});
  expect_result({x, none}, [](const auto& in) { return gather(in[0], 0, in[1]); }, numbers({0, 4}),
                {});
  expect_result({x, none}, [](const auto& in) { return scatter(in[0], 0, in[1], 1); }, x, {});
  expect_result({x, ids({0}, {})}, [](const auto& in) { return index_select(in[0], 1, in[1]); },
                numbers({3, 0}), {});
  const Array one({}, {5}), zero({}, {0}, DType::i64);
  expect_result({one, zero}, [](const auto& in) { return gather(in[0], 0, in[1]); }, one, {});
  expect_result({one, zero}, [](const auto& in) { return scatter(in[0], 0, in[1], 3); },
                Array({}, {3}), {});
}

TEST(ConformanceIndexing, AlongAnAxisGradientsGoWhereElementsCameFrom) {
  const Tensor index = integer({0, 2, 2, 1, 0, 0}, {2, 3}), few = integer({2, 0, 2}, {3});
  expect_gradients({numbers({3, 4})},
                   [&](const auto& in) { return gather(in[0], 0, index).square(); });
  expect_gradients({numbers({3, 4}), numbers({3, 3})}, [&](const auto& in) {
    return scatter(in[0].square(), 0, index, in[1]).square();
  });
  if (!thorough()) return;
  expect_gradients({numbers({2, 4})},
                   [&](const auto& in) { return gather(in[0], 1, index).square(); });
  expect_gradients({numbers({3, 4}), numbers({2, 3})}, [&](const auto& in) {
    return scatter_add(in[0].square(), 0, index, in[1]).square();
  });
  for (const int axis : {0, 1}) {
    expect_gradients({numbers({3, 4})},
                     [&](const auto& in) { return index_select(in[0], axis, few).square(); });
    const Shape rows = Shape{3, 4}.with(axis, 3);
    expect_gradients({numbers({3, 4}), numbers(rows)}, [&](const auto& in) {
      return index_add(in[0].square(), axis, few, in[1]).square();
    });
  }
}

// ---- Triangles, one hot.

TEST(ConformanceIndexing, Triangles) {
  const Array x = numbers({2, 3, 4});
  for (const std::int64_t diagonal : {-3, -1, 0, 1, 2, 4}) {
    const auto triangle = [&](bool upper) {
      return made(x.shape, DType::f32, [&](const Index& i) {
        const std::int64_t off = i[2] - i[1];
        return (upper ? off >= diagonal : off <= diagonal) ? at(x, i) : 0;
      });
    };
    expect_result({x}, [&](const auto& in) { return tril(in[0], diagonal); }, triangle(false), {});
    expect_result({x}, [&](const auto& in) { return triu(in[0], diagonal); }, triangle(true), {});
  }
  for_dtypes([&](DType dtype) {
    const Array y = sample({3, 3}, dtype);
    expect_result({y}, [](const auto& in) { return triu(in[0].t()); },
                  made({3, 3}, dtype,
                       [&](const Index& i) { return i[1] >= i[0] ? at(y, Index{i[1], i[0]}) : 0; }),
                  {});
  });
  expect_result({numbers({0, 3})}, [](const auto& in) { return tril(in[0]); }, numbers({0, 3}), {});
  expect_gradients({numbers({3, 4})}, [](const auto& in) { return tril(in[0], 1).square(); });
  if (!thorough()) return;
  expect_gradients({numbers({3, 4})}, [](const auto& in) { return triu(in[0], -1).square(); });
}

TEST(ConformanceIndexing, OneHot) {
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    const Array index = integers({2, 3}, 0, 4, dtype);
    const Array expected = made({2, 3, 5}, DType::i64, [&](const Index& i) {
      return at(index, Index{i[0], i[1]}) == static_cast<double>(i[2]) ? 1 : 0;
    });
    expect_result({index}, [](const auto& in) { return one_hot(in[0], 5); }, expected, {});
  }
  EXPECT_EQ(one_hot(integer({2, 0}, {2})).shape(), (Shape{2, 3}));
  EXPECT_EQ(one_hot(integer({}, {0, 2}), 3).shape(), (Shape{0, 2, 3}));
}

// ---- Order: edge cases of the existing operations.

TEST(ConformanceIndexing, SortAndTopKAtTheirEdges) {
  const Array x({2, 5}, {3, kNan, 1, 3, -kInf, 0.0, -0.0, kInf, kNan, 0.0});
  const Tensor t = upload(x);
  const Sorted up = sort(t), down = sort(t, -1, {.descending = true});
  using Places = std::vector<std::int64_t>;
  EXPECT_EQ(up.indices.to_vector<std::int64_t>(), (Places{4, 2, 0, 3, 1, 0, 1, 4, 2, 3}));
  EXPECT_EQ(down.indices.to_vector<std::int64_t>(), (Places{1, 0, 3, 2, 4, 3, 2, 0, 1, 4}));
  EXPECT_EQ(topk(t, 5).indices.to_vector<std::int64_t>(), down.indices.to_vector<std::int64_t>());
  EXPECT_EQ(topk(t, 0).values.shape(), (Shape{2, 0}));
  EXPECT_EQ(topk(t, 1, 0).values.shape(), (Shape{1, 5}));
  const Tensor none = zeros({3, 0}, {.device = test_device()});
  EXPECT_EQ(sort(none).indices.shape(), (Shape{3, 0}));
  EXPECT_EQ(argsort(none, 0).shape(), (Shape{3, 0}));
  EXPECT_EQ(topk(none, 0).indices.shape(), (Shape{3, 0}));
}

}  // namespace
}  // namespace volta::conformance
