// Conformance of reductions and of operations composed of them.
#include "ops/conformance/conformance.h"

namespace volta::conformance {
namespace {

// One or several axes of a shape.
struct Pattern {
  Shape shape;
  std::vector<int> axes;
};

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all{
      {{7}, {0}},          {{100'003}, {0}},    {{5, 13}, {0}},         {{5, 13}, {1}},
      {{5, 13}, {0, 1}},   {{300, 70}, {0}},    {{70, 300}, {1}},       {{2, 3000}, {1}},
      {{3, 5, 7}, {0}},    {{3, 5, 7}, {1}},    {{3, 5, 7}, {2}},       {{3, 5, 7}, {0, 2}},
      {{3, 5, 7}, {0, 1}}, {{3, 5, 7}, {1, 2}}, {{3, 5, 7}, {0, 1, 2}}, {{4, 1}, {1}},
      {{1, 4}, {0}},       {{1}, {0}},
  };
  return all;
}

// The patterns whose schedules differ from those before them.
std::vector<Pattern> fewer_patterns() {
  if (thorough()) return patterns();
  return {{{7}, {0}},       {{100'003}, {0}}, {{5, 13}, {0}}, {{300, 70}, {0}},
          {{70, 300}, {1}}, {{3, 5, 7}, {1}}, {{1}, {0}}};
}

Index wide(const std::vector<int>& axes) { return Index(axes.begin(), axes.end()); }

double mean_of(const std::vector<double>& values) {
  return total(values) / static_cast<double>(values.size());
}
double place_of(const std::vector<double>& values, bool (*before)(double, double)) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (std::isnan(values[best])) break;
    if (std::isnan(values[i]) || before(values[i], values[best])) best = i;
  }
  return static_cast<double>(best);
}
double place_of_largest(const std::vector<double>& values) {
  return place_of(values, [](double a, double b) { return a > b; });
}
double place_of_smallest(const std::vector<double>& values) {
  return place_of(values, [](double a, double b) { return a < b; });
}
double smallest(std::vector<double> values) {
  for (double& value : values) value = -value;
  return -largest(values);
}
double product(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 1.0, std::multiplies<>());
}

TEST(Conformance, Sum) {
  for (const Pattern& p : patterns()) {
    SCOPED_TRACE(to_string(p.shape) + " over " + std::to_string(p.axes[0]));
    const Array x = numbers(p.shape, -1, 2);
    for (const bool keepdim : {false, true}) {
      expect_result(
          {x}, [&](const auto& in) { return in[0].sum(wide(p.axes), keepdim); },
          folded(x, p.axes, keepdim, total), close_in(DType::f32));
    }
  }
  const Array x = numbers({3, 5, 7});
  expect_result(
      {x}, [](const auto& in) { return in[0].sum(); }, folded(x, {0, 1, 2}, false, total),
      close_in(DType::f32));
  expect_result(
      {x}, [](const auto& in) { return in[0].sum(-1); }, folded(x, {2}, false, total),
      close_in(DType::f32));
  expect_result(
      {x}, [](const auto& in) { return in[0].sum({-1, 0}, true); }, folded(x, {0, 2}, true, total),
      close_in(DType::f32));
}

TEST(Conformance, SumOfNothingAndOfScalars) {
  expect_result({Array({}, {3})}, [](const auto& in) { return in[0].sum(); }, Array({}, {3}), {});
  expect_result({numbers({0})}, [](const auto& in) { return in[0].sum(); }, Array({}, {0}), {});
  expect_result({numbers({3, 0})}, [](const auto& in) { return in[0].sum(1); },
                Array({3}, {0, 0, 0}), {});
  expect_result({numbers({3, 0})}, [](const auto& in) { return in[0].sum(0); }, numbers({0}), {});
  expect_result({numbers({0})}, [](const auto& in) { return in[0].mean(); }, Array({}, {kNan}), {});
  expect_result({numbers({4})},
                [](const auto& in) { return in[0].sum(std::initializer_list<std::int64_t>{}); },
                numbers({4}), {});
}

TEST(Conformance, SumOfViews) {
  const Array x = numbers({6, 9, 4});
  expect_result(
      {x}, [](const auto& in) { return in[0].permute({2, 0, 1}).sum(2); },
      folded(permuted(x, {2, 0, 1}), {2}, false, total), close_in(DType::f32));
  expect_result(
      {x}, [](const auto& in) { return in[0].narrow(1, 2, 5).sum(1); },
      folded(narrowed(x, 1, 2, 5), {1}, false, total), close_in(DType::f32));
  expect_result(
      {numbers({5, 1})}, [](const auto& in) { return in[0].expand({5, 300}).sum(1); },
      folded(expanded(numbers({5, 1}), {5, 300}), {1}, false, total), close_in(DType::f32));
  expect_result(
      {x}, [](const auto& in) { return in[0].square().sum(2) + 1; },
      mapped(folded(x, {2}, false,
                    [](const auto& v) {
                      return std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
                    }),
             [](double s) { return s + 1; }),
      close_in(DType::f32));
}

TEST(Conformance, SumOfOtherDtypes) {
  for (const DType dtype :
       {DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean, DType::f16, DType::bf16}) {
    if (!has(dtype) ||
        (!thorough() && (dtype == DType::i32 || dtype == DType::u8 || dtype == DType::bf16)))
      continue;
    const Array x = integers({13, 40}, 0, dtype == DType::boolean ? 1 : 3, dtype);
    for (const int axis : {1, 0}) {
      if (axis == 0 && !thorough()) continue;
      Array expected = folded(x, {axis}, false, total);
      expected.dtype = is_floating(dtype) ? dtype : DType::i64;
      expect_result({x}, [&](const auto& in) { return in[0].sum(axis); }, expected, {});
    }
  }
  if (has(DType::f64)) {
    const Array x = numbers({300, 70}, -1, 2, DType::f64);
    expect_result(
        {x}, [](const auto& in) { return in[0].sum(1); }, folded(x, {1}, false, total),
        close_in(DType::f64));
  }
  if (has(DType::f16)) {
    // Sums are accumulated in a wider dtype: 5000 ones do not stop at 2048.
    const Array x({5000}, std::vector<double>(5000, 1), DType::f16);
    expect_result({x}, [](const auto& in) { return in[0].sum(); }, Array({}, {5000}, DType::f16),
                  {});
  }
}

TEST(Conformance, LongSumsKeepTheirPrecision) {
  // Sums are trees, not chains: a chain of f32 additions has an error of at least 1e-4 here.
  const Array x({1'000'000}, std::vector<double>(1'000'000, 0.1));
  expect_result(
      {x}, [](const auto& in) { return in[0].sum(); }, folded(x, {0}, false, total),
      Tolerance{2e-6, 0});
}

TEST(Conformance, Mean) {
  for (const Pattern& p : fewer_patterns()) {
    const Array x = numbers(p.shape, -1, 2);
    expect_result(
        {x}, [&](const auto& in) { return in[0].mean(wide(p.axes), true); },
        folded(x, p.axes, true, mean_of), close_in(DType::f32));
  }
  const Array x = numbers({3, 5, 7});
  expect_result(
      {x}, [](const auto& in) { return in[0].mean(); }, folded(x, {0, 1, 2}, false, mean_of),
      close_in(DType::f32));
}

TEST(Conformance, Max) {
  for (const Pattern& p : fewer_patterns()) {
    const Array x = numbers(p.shape, -3, -1);
    expect_result({x}, [&](const auto& in) { return in[0].max(wide(p.axes)); },
                  folded(x, p.axes, false, largest), {});
    expect_result({x}, [&](const auto& in) { return in[0].max(wide(p.axes), true); },
                  folded(x, p.axes, true, largest), {});
  }
  const Array all = numbers({5, 13});
  expect_result({all}, [](const auto& in) { return in[0].max(); },
                folded(all, {0, 1}, false, largest), {});
  const Array special({3, 3}, {-kInf, -kInf, -kInf, 1, kNan, 2, kInf, 0, 1});
  expect_result({special}, [](const auto& in) { return in[0].max(1); },
                Array({3}, {-kInf, kNan, kInf}), {});
  const Array i = integers({5, 13}, -9, 9, DType::i64);
  expect_result({i}, [](const auto& in) { return in[0].max(1); }, folded(i, {1}, false, largest),
                {});
}

TEST(Conformance, Min) {
  for (const Pattern& p : fewer_patterns()) {
    if (!thorough() && p.shape.rank() != 2) continue;
    const Array x = numbers(p.shape, 1, 3);
    expect_result({x}, [&](const auto& in) { return in[0].min(wide(p.axes), true); },
                  folded(x, p.axes, true, smallest), {});
  }
  const Array special({3, 3}, {kInf, kInf, kInf, 1, kNan, 2, -kInf, 0, 1});
  expect_result({special}, [](const auto& in) { return in[0].min(1); },
                Array({3}, {kInf, kNan, -kInf}), {});
  expect_result({special}, [](const auto& in) { return min(in[0]); }, Array({}, {kNan}), {});
  for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean, DType::f16}) {
    if (!has(dtype) || (!thorough() && dtype != DType::i64)) continue;
    const Array i = integers({5, 13}, dtype == DType::i64 ? -9 : 0, 1, dtype);
    expect_result({i}, [](const auto& in) { return in[0].min(1); }, folded(i, {1}, false, smallest),
                  {});
    expect_result({i}, [](const auto& in) { return in[0].max(1); }, folded(i, {1}, false, largest),
                  {});
  }
}

// The chunks of a long row are filled up with the operation's identity.
TEST(Conformance, ExtremaOfLongRows) {
  const Array x = numbers({30'011}, 1, 3);
  expect_result({x}, [](const auto& in) { return in[0].min(); }, folded(x, {0}, false, smallest),
                {});
  expect_result({x}, [](const auto& in) { return (-in[0]).max(); },
                mapped(folded(x, {0}, false, smallest), [](double v) { return -v; }), {});
  for (const DType dtype : {DType::i32, DType::i64, DType::u8}) {
    if (!thorough()) continue;
    const Array i = integers({30'011}, 3, 200, dtype);
    expect_result({i}, [](const auto& in) { return in[0].min(); }, folded(i, {0}, false, smallest),
                  {});
    expect_result({i}, [](const auto& in) { return in[0].max(); }, folded(i, {0}, false, largest),
                  {});
  }
  Array truths({30'011}, std::vector<double>(30'011, 1), DType::boolean);
  expect_result({truths}, [](const auto& in) { return in[0].all(); },
                Array({}, {1}, DType::boolean), {});
  truths.values[29'000] = 0;
  expect_result({truths}, [](const auto& in) { return in[0].all(); },
                Array({}, {0}, DType::boolean), {});
}

TEST(Conformance, Prod) {
  for (const Pattern& p : fewer_patterns()) {
    const Array x = numbers(p.shape, 0.98, 1.02);
    expect_result(
        {x}, [&](const auto& in) { return in[0].prod(wide(p.axes), true); },
        folded(x, p.axes, true, product), Tolerance{p.shape.numel() > 1000 ? 1e-3 : 1e-5});
  }
  expect_result({numbers({3, 0})}, [](const auto& in) { return in[0].prod(1); },
                Array({3}, {1, 1, 1}), {});
  expect_result({Array({4}, {-0.0, 2, kInf, 1})}, [](const auto& in) { return prod(in[0]); },
                Array({}, {kNan}), {});
  for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean}) {
    if (!thorough() && dtype != DType::i64) continue;
    const Array x =
        integers({5, 13}, dtype == DType::boolean ? 0 : 1, dtype == DType::boolean ? 1 : 3, dtype);
    Array expected = folded(x, {1}, false, product);
    expected.dtype = DType::i64;
    expect_result({x}, [](const auto& in) { return in[0].prod(1); }, expected, {});
  }
}

TEST(Conformance, AnyAndAll) {
  const auto any = [](const auto& v) {
    return std::any_of(v.begin(), v.end(), [](double x) { return x != 0; }) ? 1.0 : 0.0;
  };
  const auto all = [](const auto& v) {
    return std::all_of(v.begin(), v.end(), [](double x) { return x != 0; }) ? 1.0 : 0.0;
  };
  const Array row({4, 3}, {0, 0, 0, 0, kNan, 0, 1, 2, 3, -0.0, 1, 0});
  for (const DType dtype : {DType::f32, DType::boolean, DType::i32, DType::u8, DType::f16}) {
    if (!has(dtype) || (!thorough() && dtype != DType::f32)) continue;
    const Array x = is_floating(dtype) ? row.as(dtype) : integers({4, 3}, 0, 1, dtype);
    for (const std::vector<int>& axes : std::vector<std::vector<int>>{{1}, {0}, {0, 1}}) {
      Array expected = folded(x, axes, true, any);
      expected.dtype = DType::boolean;
      expect_result({x}, [&](const auto& in) { return in[0].any(wide(axes), true); }, expected, {});
      expected = folded(x, axes, true, all);
      expected.dtype = DType::boolean;
      expect_result({x}, [&](const auto& in) { return in[0].all(wide(axes), true); }, expected, {});
    }
  }
  const Array none({0}, {}, DType::boolean);
  expect_result({none}, [](const auto& in) { return in[0].any(); }, Array({}, {0}, DType::boolean),
                {});
  expect_result({none}, [](const auto& in) { return in[0].all(); }, Array({}, {1}, DType::boolean),
                {});
}

TEST(Conformance, ArgMaxAndArgMin) {
  const auto check = [](const Array& x, int axis) {
    Array expected = folded(x, {axis}, false, place_of_largest);
    expected.dtype = DType::i64;
    expect_result({x}, [&](const auto& in) { return in[0].argmax(axis); }, expected, {});
    if (!thorough() && x.shape != Shape{3, 3}) return;
    expected = folded(x, {axis}, true, place_of_smallest);
    expected.dtype = DType::i64;
    expect_result({x}, [&](const auto& in) { return in[0].argmin(axis, true); }, expected, {});
  };
  for (const Pattern& p : fewer_patterns()) {
    if (p.axes.size() == 1) check(numbers(p.shape), p.axes[0]);
  }
  // Rows that are split: the position is in the first chunk with the best value, and padding is not
  // found.
  Array rows = numbers({3, 20'011}, 1, 2);
  for (const std::size_t i : {12'345u, 19'000u, 20'010u}) rows.values[i] = 5;
  rows.values[20'011 + 17'000] = kNan;
  rows.values[20'011 + 19'000] = kNan;
  for (std::size_t i = 2 * 20'011; i < rows.values.size(); ++i) rows.values[i] = -kInf;
  check(rows, 1);
  if (thorough()) {
    check(mapped(rows, [](double v) { return -v; }), 1);
    check(integers({30'011}, -2000, 2000, DType::i32), 0);
    check(integers({30'011}, 0, 200, DType::i64), 0);
    check(numbers({9000, 3}), 0);
  }
  // The first of several equal elements, and NaN before everything.
  check(integers({7, 200}, 0, 3, DType::f32), 1);
  check(integers({200, 7}, 0, 3, DType::f32), 0);
  check(integers({13, 40}, -9, 9, DType::i32), 1);
  check(Array({3, 3}, {-kInf, -kInf, -kInf, 1, kNan, 2, kInf, 0, kInf}), 1);
  Array x = numbers({5, 13});
  const Array all({}, {place_of_largest(x.values)}, DType::i64);
  expect_result({x}, [](const auto& in) { return in[0].argmax(); }, all, {});
  const Array least({1, 1}, {place_of_smallest(x.values)}, DType::i64);
  expect_result({x}, [](const auto& in) { return argmin(in[0], {}, true); }, least, {});
}

Array softmax_of(const Array& x, int axis, bool logarithm) {
  const Array top = folded(x, {axis}, true, largest);
  const Array shifted = combined(x, top, [](double a, double b) { return a - b; });
  const Array sum =
      folded(mapped(shifted, [](double v) { return std::exp(v); }), {axis}, true, total);
  return combined(shifted, sum, [&](double v, double s) {
    return logarithm ? v - std::log(s) : std::exp(v) / s;
  });
}

TEST(Conformance, Softmax) {
  for (const bool logarithm : {false, true}) {
    for (const Pattern& p : fewer_patterns()) {
      if (p.axes.size() != 1 || p.shape.numel() > 50'000) continue;
      if (!thorough() && p.shape.rank() != (logarithm ? 2 : 3) && p.shape[0] != 70) continue;
      const Array x = numbers(p.shape, -8, 8);
      const int axis = p.axes[0];
      expect_result(
          {x},
          [&](const auto& in) {
            return logarithm ? log_softmax(in[0], axis) : softmax(in[0], axis);
          },
          softmax_of(x, axis, logarithm), close_in(DType::f32, logarithm ? 10 : 0.01));
    }
    const Array x =
        numbers({4, 3}, 0, 10'000);  // exp of these overflows unless the largest is subtracted
    expect_result(
        {x}, [&](const auto& in) { return logarithm ? in[0].log_softmax(-1) : in[0].softmax(-1); },
        softmax_of(x, 1, logarithm), close_in(DType::f32, 100));
    const Array masked({2, 3}, {0, -kInf, 1, -kInf, -kInf, -kInf});
    expect_result(
        {masked},
        [&](const auto& in) { return logarithm ? log_softmax(in[0], 1) : softmax(in[0], 1); },
        softmax_of(masked, 1, logarithm), close_in(DType::f32));
    expect_result({numbers({0, 3})}, [&](const auto& in) { return softmax(in[0], 1); },
                  numbers({0, 3}), {});
    if (has(DType::f64)) {
      const Array wide = numbers({5, 13}, -8, 8, DType::f64);
      expect_result(
          {wide},
          [&](const auto& in) { return logarithm ? log_softmax(in[0], 1) : softmax(in[0], 1); },
          softmax_of(wide, 1, logarithm), close_in(DType::f64));
    }
  }
}

// ---- Gradients.

TEST(Conformance, SumAndMeanGradients) {
  if (thorough()) {
    expect_gradients({numbers({3, 4})}, [](const auto& in) { return in[0].square().sum(0); });
    expect_gradients({numbers({3, 4})}, [](const auto& in) { return in[0].square().mean(); });
  }
  expect_gradients({numbers({3, 4})},
                   [](const auto& in) { return in[0].square().sum(1, true) * in[0]; });
  expect_gradients({numbers({2, 3, 2})}, [](const auto& in) { return in[0].exp().sum({0, 2}); });
  expect_gradients({numbers({3, 4})}, [](const auto& in) { return in[0].square().mean(1); });
}

TEST(Conformance, ExtremaGradients) {
  if (thorough()) {
    expect_gradients({numbers({3, 4})}, [](const auto& in) { return in[0].max(1); });
    expect_gradients({numbers({3, 4, 2})}, [](const auto& in) { return in[0].min({0, 2}); });
    expect_gradients({numbers({7})}, [](const auto& in) { return in[0].min(); });
  }
  expect_gradients({numbers({3, 4})}, [](const auto& in) { return in[0].max(0, true) * in[0]; });
  expect_gradients({numbers({3, 4})}, [](const auto& in) { return in[0].min(-1, true) * in[0]; });
  expect_gradients({numbers({7})}, [](const auto& in) { return in[0].max(); });
}

// Along one axis the first of equal elements gets the gradient; over several or all axes they share
// it.
TEST(Conformance, ExtremaGradientsOfTies) {
  const Array ties({2, 3}, {1, 5, 5, 2, 2, 2});
  const auto gradient = [&](const auto& reduce, const Array& g) {
    Tensor x = upload(ties, true);
    reduce(x).backward(upload(g));
    return download(x.grad()).values;
  };
  using Values = std::vector<double>;
  EXPECT_EQ(gradient([](const Tensor& x) { return x.max(1); }, Array({2}, {6, 9})),
            (Values{0, 6, 0, 9, 0, 0}));
  EXPECT_EQ(gradient([](const Tensor& x) { return x.min(1); }, Array({2}, {6, 9})),
            (Values{6, 0, 0, 9, 0, 0}));
  EXPECT_EQ(gradient([](const Tensor& x) { return x.min({0, 1}); }, Array({}, {6})),
            (Values{6, 0, 0, 0, 0, 0}));
  EXPECT_EQ(gradient([](const Tensor& x) { return x.max(); }, Array({}, {6})),
            (Values{0, 3, 3, 0, 0, 0}));
  Tensor x = upload(Array({4}, {1, kNan, 2, kNan}), true);
  x.max().backward();
  EXPECT_EQ(download(x.grad()).values, (Values{0, 0.5, 0, 0.5}));
}

TEST(Conformance, ProdGradients) {
  expect_gradients({numbers({3, 4})}, [](const auto& in) { return in[0].prod(1); });
  expect_gradients({Array({3, 3}, {0.5, 0, 2, 0, 3, 0, 1, 2, 3})},
                   [](const auto& in) { return in[0].prod(1, true) * in[0]; });
  if (thorough()) {
    expect_gradients({numbers({2, 3, 2})}, [](const auto& in) { return in[0].prod({0, 2}); });
    expect_gradients({Array({2, 2}, {0, 2, 3, 4})}, [](const auto& in) { return in[0].prod(); });
  }
}

// Products of the other elements without division are correct where elements are 0 and in long
// rows.
TEST(Conformance, SecondGradientsOfProd) {
  const auto slope = [](const Tensor& given, const Index& axes) {
    const EnableGrad on;
    const Tensor x = given.requires_grad() ? given : given.detach().set_requires_grad();
    return grad(x.prod(axes).sum(), x, {.create_graph = true});
  };
  expect_gradients({Array({2, 4}, {0.5, 0, 2, 3, 0, 1.5, 0, 0.5})},
                   [&](const auto& in) { return slope(in[0], {1}); });
  if (!thorough()) return;
  expect_gradients({numbers({2, 3, 2})}, [&](const auto& in) { return slope(in[0], {0, 2}); });
  expect_gradients({numbers({2, 19}, 0.8, 1.2)}, [&](const auto& in) { return slope(in[0], {1}); });
}

TEST(Conformance, SoftmaxGradients) {
  for (const int axis : {0, 1}) {
    expect_gradients({numbers({3, 4})}, [&](const auto& in) { return softmax(in[0], axis); });
    expect_gradients({numbers({3, 4})}, [&](const auto& in) { return log_softmax(in[0], axis); });
  }
  if (thorough())
    expect_gradients({numbers({2, 3, 2})},
                     [](const auto& in) { return softmax(in[0], 1) * in[0]; });
}

}  // namespace
}  // namespace volta::conformance
