// Conformance of joining, splitting and repeating tensors.
#include "ops/conformance/conformance.h"

namespace volta::conformance {
namespace {

// from(index) maps an index of the result to an index of x.
template <class From>
Array taken(const Array& x, const Shape& shape, From from) {
  return made(shape, x.dtype, [&](const Index& i) { return at(x, from(i)); });
}

Array joined_along(const std::vector<Array>& parts, int axis) {
  std::int64_t size = 0;
  for (const Array& part : parts) size += part.shape[axis];
  return made(parts[0].shape.with(axis, size), parts[0].dtype, [&](Index i) {
    std::int64_t& position = i[static_cast<std::size_t>(axis)];
    std::size_t part = 0;
    while (position >= parts[part].shape[axis]) position -= parts[part++].shape[axis];
    return at(parts[part], i);
  });
}

// As expect_close, but -0 differs from 0.
void expect_bits(const Array& actual, const Array& expected) {
  expect_close(actual, expected, {});
  for (std::size_t i = 0; i < expected.values.size(); ++i)
    EXPECT_EQ(std::signbit(actual.values[i]), std::signbit(expected.values[i])) << i;
}

TEST(Conformance, Concat) {
  for (const int axis : {0, 1, 2}) {
    std::vector<Array> parts;
    for (const std::int64_t size : {2, 1, 4})
      parts.push_back(numbers(Shape{3, 5, 4}.with(axis, size), -2, 2, DType::f32,
                              0.1 * static_cast<double>(size)));
    expect_result(parts, [&](const auto& in) { return concat(in, axis); },
                  joined_along(parts, axis), {});
  }
  const Array a = numbers({2, 3}), none = numbers({0, 3});
  expect_result({none, a, none}, [](const auto& in) { return cat(in, 0); }, a, {});
  expect_result({none, none}, [](const auto& in) { return concat({in[0], in[1]}); }, none, {});
  expect_result({a}, [](const auto& in) { return concat({in[0]}, -1); }, a, {});
  // Elements are selected and not added: zeros keep their sign, and NaNs do not spread.
  const Array special({4}, {-0.0, kNan, kInf, 0.0}), zeros({2}, {-0.0, -0.0});
  expect_bits(run({special, zeros, special}, [](const auto& in) { return concat(in); }),
              joined_along({special, zeros, special}, 0));
}

TEST(Conformance, ConcatOfOtherDtypes) {
  for (const DType dtype :
       {DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    if (!has(dtype) || (!thorough() && dtype != DType::f16 && dtype != DType::i64)) continue;
    const std::vector<Array> parts{integers({3, 2}, 0, 1, dtype), integers({3, 5}, 0, 1, dtype, 1)};
    expect_result(parts, [](const auto& in) { return concat(in, 1); }, joined_along(parts, 1), {});
  }
  // Dtypes promote.
  const Array i = integers({3}, -5, 5, DType::i64), f = numbers({2});
  expect_result({i, f}, [](const auto& in) { return concat(in); },
                joined_along({i.as(DType::f32), f}, 0), {});
}

TEST(Conformance, ConcatOfComputedValuesAndViews) {
  const Array a = numbers({4, 3}), b = numbers({3, 4}, 1, 2);
  const auto square = [](double v) { return v * v; };
  expect_result(
      {a, b}, [](const auto& in) { return concat({in[0].square(), in[1].t(), in[0].flip(0)}, 1); },
      joined_along({mapped(a, square), permuted(b, {1, 0}),
                    taken(a, {4, 3}, [](const Index& i) { return Index{3 - i[0], i[1]}; })},
                   1),
      exact_in(DType::f32));
  expect_result(
      {a}, [](const auto& in) { return concat({in[0], concat({in[0] * 2, in[0]}, 0)}, 0).sum(0); },
      folded(joined_along({a, mapped(a, [](double v) { return 2 * v; }), a}, 0), {0}, false, total),
      close_in(DType::f32));
}

TEST(Conformance, ConcatOfManyIsOnePass) {
  for (const int count : {23, 60}) {
    std::vector<Array> parts;
    for (int i = 0; i < count; ++i)
      parts.push_back(numbers({1 + i % 3, 2}, -2, 2, DType::f32, 0.01 * i));
    expect_result(parts, [](const auto& in) { return concat(in); }, joined_along(parts, 0), {});
    if (!thorough()) break;
  }
}

TEST(Conformance, Stack) {
  const Array a = numbers({3, 4}), b = numbers({3, 4}, 5, 6);
  for (const int axis : {0, 1, 2}) {
    Array x = a, y = b;
    x.shape = y.shape = a.shape.inserted(axis, 1);
    expect_result({a, b}, [&](const auto& in) { return stack(in, axis); },
                  joined_along({x, y}, axis), {});
    if (axis == 2)
      expect_result({a, b}, [&](const auto& in) { return stack({in[0], in[1]}, -1); },
                    joined_along({x, y}, 2), {});
  }
  expect_result({Array({}, {1}), Array({}, {2})}, [](const auto& in) { return stack(in); },
                Array({2}, {1, 2}), {});
}

TEST(Conformance, SplitAndChunk) {
  const Array x = numbers({7, 3});
  const auto check = [&](const auto& split, const std::vector<std::int64_t>& sizes) {
    const std::vector<Tensor> parts = split(upload(x));
    ASSERT_EQ(parts.size(), sizes.size());
    std::int64_t start = 0;
    for (std::size_t i = 0; i < sizes.size(); start += sizes[i++])
      expect_close(download(parts[i]), narrowed(x, 0, start, sizes[i]), {});
  };
  check([](const Tensor& t) { return t.split(3); }, {3, 3, 1});
  check([](const Tensor& t) { return t.split(100, -2); }, {7});
  check([](const Tensor& t) { return t.split({2, 0, 5}); }, {2, 0, 5});
  check([](const Tensor& t) { return t.chunk(3); }, {3, 3, 1});
  check([](const Tensor& t) { return chunk(t, 4); }, {2, 2, 2, 1});
  check([](const Tensor& t) { return split(t, 4); }, {4, 3});
  EXPECT_EQ(upload(numbers({0, 2})).chunk(3).size(), 3u);
  EXPECT_EQ(upload(numbers({0, 2})).split(3).size(), 1u);
}

Array repeated(const Array& x, const Index& counts) {
  Index sizes;
  const std::size_t added = counts.size() - static_cast<std::size_t>(x.shape.rank());
  for (std::size_t i = 0; i < counts.size(); ++i)
    sizes.push_back(counts[i] * (i < added ? 1 : x.shape[static_cast<int>(i - added)]));
  return taken(x, Shape(sizes), [&](const Index& i) {
    Index source;
    for (std::size_t k = added; k < i.size(); ++k)
      source.push_back(i[k] % x.shape[static_cast<int>(k - added)]);
    return source;
  });
}

TEST(Conformance, RepeatAndTile) {
  const Array x = numbers({2, 3});
  expect_result({x}, [](const auto& in) { return in[0].repeat({2, 1}); }, repeated(x, {2, 1}), {});
  expect_result({x}, [](const auto& in) { return in[0].repeat({3, 1, 2}); }, repeated(x, {3, 1, 2}),
                {});
  expect_result({x}, [](const auto& in) { return in[0].repeat({0, 2}); }, numbers({0, 6}), {});
  expect_result({x}, [](const auto& in) { return in[0].tile({2}); }, repeated(x, {1, 2}), {});
  expect_result(
      {x}, [](const auto& in) { return tile(in[0], Index{2, 3}) + 0.5; },
      mapped(repeated(x, {2, 3}), [](double v) { return v + 0.5; }), exact_in(DType::f32));
  expect_result({Array({}, {3})}, [](const auto& in) { return in[0].repeat({2, 2}); },
                Array({2, 2}, {3, 3, 3, 3}), {});
  expect_result({x}, [](const auto& in) { return in[0].repeat_interleave(2, 1); },
                taken(x, {2, 6}, [](const Index& i) { return Index{i[0], i[1] / 2}; }), {});
  expect_result({x}, [](const auto& in) { return in[0].repeat_interleave(3, 0); },
                taken(x, {6, 3}, [](const Index& i) { return Index{i[0] / 3, i[1]}; }), {});
  expect_result({x}, [](const auto& in) { return in[0].repeat_interleave(2); },
                taken(x, {12}, [](const Index& i) { return Index{i[0] / 6, i[0] / 2 % 3}; }), {});
}

TEST(Conformance, Roll) {
  const Array x = numbers({4, 5});
  const auto rolled = [](const Array& a, std::int64_t down, std::int64_t right) {
    return taken(a, a.shape, [&](const Index& i) {
      return Index{((i[0] - down) % a.shape[0] + a.shape[0]) % a.shape[0],
                   ((i[1] - right) % a.shape[1] + a.shape[1]) % a.shape[1]};
    });
  };
  expect_result({x}, [](const auto& in) { return in[0].roll(1, 0); }, rolled(x, 1, 0), {});
  expect_result({x}, [](const auto& in) { return roll(in[0], -7, -1); }, rolled(x, 0, -7), {});
  expect_result({x}, [](const auto& in) { return in[0].roll({2, 3}, {0, 1}); }, rolled(x, 2, 3),
                {});
  expect_result({x}, [](const auto& in) { return in[0].roll(5, 1); }, x, {});
  expect_result({x}, [](const auto& in) { return in[0].roll(3); },
                taken(x, {4, 5},
                      [](const Index& i) {
                        const std::int64_t k = (i[0] * 5 + i[1] + 17) % 20;
                        return Index{k / 5, k % 5};
                      }),
                {});
  expect_result({numbers({0, 2})}, [](const auto& in) { return in[0].roll(1, 0); }, numbers({0, 2}),
                {});
}

TEST(Conformance, PadByReflectionAndReplication) {
  const auto bordered = [](const Array& x, const Index& before, const Index& after, bool reflect) {
    Index sizes;
    for (int i = 0; i < x.shape.rank(); ++i)
      sizes.push_back(before[static_cast<std::size_t>(i)] + x.shape[i] +
                      after[static_cast<std::size_t>(i)]);
    return taken(x, Shape(sizes), [&](Index i) {
      for (std::size_t k = 0; k < i.size(); ++k) {
        const std::int64_t last = x.shape[static_cast<int>(k)] - 1;
        i[k] -= before[k];
        if (i[k] < 0) i[k] = reflect ? -i[k] : 0;
        if (i[k] > last) i[k] = reflect ? 2 * last - i[k] : last;
      }
      return i;
    });
  };
  const Array line = numbers({6}), x = numbers({4, 5});
  for (const bool reflect : {true, false}) {
    const PadOptions options{.mode = reflect ? PadMode::reflect : PadMode::replicate};
    expect_result({line}, [&](const auto& in) { return in[0].pad({2}, {5}, options); },
                  bordered(line, {2}, {5}, reflect), {});
    expect_result({x},
                  [&](const auto& in) { return pad(in[0], Index{1, 2}, Index{3, 0}, options); },
                  bordered(x, {1, 2}, {3, 0}, reflect), {});
    expect_result({x}, [&](const auto& in) { return in[0].pad({0, 0}, {0, 0}, options); }, x, {});
  }
  expect_result({line}, [](const auto& in) { return in[0].pad({1}, {0}, {.value = 2.5}); },
                joined_along({Array({1}, {2.5}), line}, 0), {});
}

TEST(Conformance, ViewsExpandedUnflattenedSqueezed) {
  const Array x = numbers({2, 6, 1});
  const auto shaped = [&](const Shape& shape) {
    Array result = x;
    result.shape = shape;
    return result;
  };
  expect_result({x}, [](const auto& in) { return in[0].view({3, -1}); }, shaped({3, 4}), {});
  expect_result({x}, [](const auto& in) { return in[0].view(Shape{12}); }, shaped({12}), {});
  expect_result({x}, [](const auto& in) { return in[0].unflatten(1, {2, -1}); },
                shaped({2, 2, 3, 1}), {});
  expect_result({x}, [](const auto& in) { return in[0].squeeze(); }, shaped({2, 6}), {});
  expect_result({numbers({1, 1})}, [](const auto& in) { return in[0].squeeze(); },
                Array({}, numbers({1}).values), {});
  expect_result({x}, [](const auto& in) { return in[0].expand({-1, 6, 3}); },
                expanded(x, {2, 6, 3}), {});
  expect_result({x}, [](const auto& in) { return in[0].expand({4, -1, -1, 2}); },
                expanded(x, {4, 2, 6, 2}), {});
}

// Results are variables of their own: writing to one does not change its source.
TEST(Conformance, PartsAreVariablesOfTheirOwn) {
  const Array x = numbers({3, 4});
  const auto check = [&](const auto& part) {
    const Tensor source = upload(x);
    Tensor result = part(source);
    result.fill_(9);
    expect_close(download(source), x, {});
  };
  check([](const Tensor& t) { return t.view({3, 4}); });
  check([](const Tensor& t) { return t.slice(0); });
  check([](const Tensor& t) { return t.stride({1, 1}); });
  check([](const Tensor& t) { return t.roll(0, 0); });
  check([](const Tensor& t) { return t.repeat({1, 1}); });
  check([](const Tensor& t) { return t.repeat_interleave(1, 0); });
  check([](const Tensor& t) { return t.pad({0, 0}, {0, 0}, {.mode = PadMode::reflect}); });
  check([](const Tensor& t) { return concat({t}); });
  check([](const Tensor& t) { return t.squeeze(); });
  check([](const Tensor& t) { return t.split(3)[0]; });
}

// ---- Gradients.

TEST(Conformance, JoiningGradients) {
  const Array x = numbers({3, 4}), y = numbers({2, 4}, 1, 2);
  expect_gradients({x, y},
                   [](const auto& in) { return concat({in[0], in[1].square(), in[0]}).square(); });
  expect_gradients({x}, [](const auto& in) {
    return in[0].pad({1, 2}, {2, 3}, {.mode = PadMode::reflect}).square();
  });
  expect_gradients({x},
                   [](const auto& in) { return in[0].roll({1, -1}, {0, 1}).square() * in[0]; });
  expect_gradients({x}, [](const auto& in) { return in[0].repeat({2, 1, 3}).square(); });
  if (!thorough()) return;
  expect_gradients({x}, [](const auto& in) {
    return in[0].pad({1, 2}, {2, 3}, {.mode = PadMode::replicate}).square();
  });
  expect_gradients({x}, [](const auto& in) { return stack({in[0], in[0].exp()}, 1).square(); });
  expect_gradients({x}, [](const auto& in) {
    const std::vector<Tensor> parts = in[0].split({1, 3}, 1);
    return parts[0] * parts[1];
  });
  expect_gradients({x}, [](const auto& in) { return in[0].repeat_interleave(2, 1).square(); });
  expect_gradients({x}, [](const auto& in) { return in[0].unflatten(1, {2, 2}).square().sum(1); });
}

}  // namespace
}  // namespace volta::conformance
