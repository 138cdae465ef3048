// Conformance of creation, random numbers and movement.
#include <set>

#include "ops/conformance/conformance.h"

namespace volta::conformance {
namespace {

TensorOptions here(std::optional<DType> dtype = std::nullopt) {
  return {.dtype = dtype, .device = test_device()};
}

// ---- Movement.

TEST(Conformance, Reshape) {
  const Array x = numbers({4, 6});
  const auto as = [&](const Shape& shape) {
    Array result = x;
    result.shape = shape;
    return result;
  };
  for (const Shape& shape : {Shape{24}, Shape{2, 3, 4}, Shape{6, 4}, Shape{1, 24, 1}}) {
    expect_result({x}, [&](const auto& in) { return in[0].reshape(shape); }, as(shape), {});
  }
  expect_result({x}, [](const auto& in) { return in[0].reshape({3, -1}); }, as({3, 8}), {});
  expect_result({x}, [](const auto& in) { return in[0].reshape({-1}); }, as({24}), {});
  expect_result({numbers({1})}, [](const auto& in) { return in[0].reshape(Shape{}); },
                Array({}, numbers({1}).values), {});
  expect_result({numbers({0, 3})}, [](const auto& in) { return in[0].reshape({3, 0}); },
                numbers({3, 0}), {});
  // A transposed operand has its elements in another order.
  Array turned = permuted(x, {1, 0});
  turned.shape = Shape{8, 3};
  expect_result({x}, [](const auto& in) { return in[0].t().reshape({8, 3}); }, turned, {});
  expect_result({x}, [](const auto& in) { return (in[0].t() + 0.25).reshape({8, 3}) - 0.25; },
                turned, {1e-6, 1e-6});
}

TEST(Conformance, Flatten) {
  const Array x = numbers({2, 3, 4});
  const auto check = [&](std::int64_t first, std::int64_t last, const Shape& shape) {
    Array expected = x;
    expected.shape = shape;
    expect_result({x}, [&](const auto& in) { return in[0].flatten(first, last); }, expected, {});
  };
  check(0, -1, {24});
  check(1, 2, {2, 12});
  check(0, 1, {6, 4});
  check(1, 1, {2, 3, 4});
  expect_result({Array({}, {3})}, [](const auto& in) { return in[0].flatten(); }, Array({1}, {3}),
                {});
}

TEST(Conformance, PermuteAndTranspose) {
  const Array x = numbers({3, 5, 7}), m = numbers({67, 131});
  for (const Index& order :
       std::vector<Index>{{0, 2, 1}, {2, 0, 1}, {2, 1, 0}, {1, 0, 2}, {-1, 0, 1}}) {
    Index positive = order;
    for (std::int64_t& axis : positive) axis = axis < 0 ? axis + 3 : axis;
    expect_result({x}, [&](const auto& in) { return in[0].permute(order); }, permuted(x, positive),
                  {});
  }
  expect_result({x}, [](const auto& in) { return in[0].permute({1, 2, 0}); },
                permuted(x, {1, 2, 0}), {});
  expect_result({x}, [](const auto& in) { return in[0].transpose(-1, 0); }, permuted(x, {2, 1, 0}),
                {});
  expect_result({m}, [](const auto& in) { return in[0].t(); }, permuted(m, {1, 0}), {});
  expect_result({numbers({7})}, [](const auto& in) { return in[0].t(); }, numbers({7}), {});
  expect_result({numbers({0, 4})}, [](const auto& in) { return in[0].t(); }, numbers({4, 0}), {});
}

TEST(Conformance, Expand) {
  const Array x = numbers({3, 1}), row = numbers({4});
  expect_result({x}, [](const auto& in) { return in[0].expand({3, 4}); }, expanded(x, {3, 4}), {});
  expect_result({row}, [](const auto& in) { return in[0].expand({2, 3, 4}); },
                expanded(row, {2, 3, 4}), {});
  expect_result({Array({}, {2})}, [](const auto& in) { return in[0].expand({5}); },
                Array({5}, {2, 2, 2, 2, 2}), {});
  expect_result({x}, [](const auto& in) { return in[0].expand({3, 0}); }, numbers({3, 0}), {});
}

TEST(Conformance, SqueezeAndUnsqueeze) {
  const Array x = numbers({3, 1, 4});
  const auto shaped = [&](const Shape& shape) {
    Array result = x;
    result.shape = shape;
    return result;
  };
  expect_result({x}, [](const auto& in) { return in[0].squeeze(1); }, shaped({3, 4}), {});
  expect_result({x}, [](const auto& in) { return in[0].squeeze(-2); }, shaped({3, 4}), {});
  expect_result({x}, [](const auto& in) { return in[0].squeeze(0); }, x, {});
  expect_result({x}, [](const auto& in) { return in[0].unsqueeze(0); }, shaped({1, 3, 1, 4}), {});
  expect_result({x}, [](const auto& in) { return in[0].unsqueeze(-1); }, shaped({3, 1, 4, 1}), {});
}

TEST(Conformance, Narrow) {
  const Array x = numbers({5, 7, 3});
  expect_result({x}, [](const auto& in) { return in[0].narrow(0, 1, 3); }, narrowed(x, 0, 1, 3),
                {});
  expect_result({x}, [](const auto& in) { return in[0].narrow(1, 2, 4); }, narrowed(x, 1, 2, 4),
                {});
  expect_result({x}, [](const auto& in) { return in[0].narrow(-1, 2, 1); }, narrowed(x, 2, 2, 1),
                {});
  expect_result({x}, [](const auto& in) { return in[0].narrow(0, 5, 0); }, numbers({0, 7, 3}), {});
  expect_result(
      {x}, [](const auto& in) { return in[0].narrow(1, 1, 5).narrow(1, 2, 2).narrow(0, 3, 2); },
      narrowed(narrowed(x, 1, 3, 2), 0, 3, 2), {});
}

Array padded(const Array& x, const Index& before, const Index& after, double value) {
  Index sizes;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    sizes.push_back(before[k] + x.shape[i] + after[k]);
  }
  return made(Shape(sizes), x.dtype, [&](Index i) {
    for (std::size_t k = 0; k < i.size(); ++k) {
      i[k] -= before[k];
      if (i[k] < 0 || i[k] >= x.shape[static_cast<int>(k)]) return value;
    }
    return at(x, i);
  });
}

TEST(Conformance, Pad) {
  const Array x = numbers({3, 5}), line = numbers({7});
  const auto check = [&](const Array& a, const Index& before, const Index& after, double value) {
    expect_result({a}, [&](const auto& in) { return pad(in[0], before, after, value); },
                  padded(a, before, after, value), {});
  };
  check(x, {1, 2}, {0, 3}, 0);
  check(x, {0, 0}, {2, 0}, -1.5);
  check(x, {0, 0}, {0, 0}, 9);
  check(line, {4}, {1}, 7);
  check(numbers({0}), {2}, {1}, 3);
  expect_result({x}, [](const auto& in) { return pad(in[0].t(), Index{1, 1}, Index{1, 1}, 2); },
                padded(permuted(x, {1, 0}), {1, 1}, {1, 1}, 2), {});
  const Array i = integers({4}, -5, 5, DType::i64);
  expect_result({i}, [](const auto& in) { return pad(in[0], Index{1}, Index{2}, 8); },
                padded(i, {1}, {2}, 8), {});
  // NaNs in the padding do not affect the values.
  expect_result({line}, [](const auto& in) { return pad(in[0], Index{1}, Index{0}, kNan); },
                padded(line, {1}, {0}, kNan), {});
}

TEST(Conformance, MovementOfEveryDtype) {
  for (const DType dtype :
       {DType::f16, DType::u8, DType::bf16, DType::f64, DType::i32, DType::boolean}) {
    if (!has(dtype) || (dtype > DType::f16 && dtype != DType::u8 && !thorough())) continue;
    const Array x = integers({3, 5}, 0, 1, dtype);
    expect_result({x}, [](const auto& in) { return in[0].t(); }, permuted(x, {1, 0}), {});
  }
}

TEST(Conformance, MovementGradients) {
  expect_gradients({numbers({2, 3})},
                   [](const auto& in) { return in[0].reshape({3, 2}).square(); });
  expect_gradients({numbers({2, 3, 2})},
                   [](const auto& in) { return in[0].permute({2, 0, 1}).exp(); });
  expect_gradients({numbers({3, 1})},
                   [](const auto& in) { return in[0].expand({2, 3, 4}).square(); });
  if (thorough()) {
    expect_gradients({numbers({2, 3})},
                     [](const auto& in) { return in[0].t() * in[0].reshape({3, 2}); });
    expect_gradients({numbers({4, 3})}, [](const auto& in) { return in[0].narrow(0, 1, 2).exp(); });
  }
  expect_gradients({numbers({4, 3})},
                   [](const auto& in) { return in[0].narrow(0, 0, 3) * in[0].narrow(0, 1, 3); });
  expect_gradients({numbers({2, 3})}, [](const auto& in) {
    return pad(in[0], Index{1, 0}, Index{0, 2}, 1.5).square();
  });
  expect_gradients({numbers({2, 1, 3})},
                   [](const auto& in) { return in[0].squeeze(1).unsqueeze(0).flatten().exp(); });
}

// ---- Creation.

TEST(Conformance, Creation) {
  EXPECT_EQ(download(tensor({1, 2.5, -3}, here())).values, (std::vector<double>{1, 2.5, -3}));
  EXPECT_EQ(tensor({1, 2}, here()).dtype(), DType::f32);
  EXPECT_EQ(tensor({1, 2, 3, 4}, {2, 2}, here(DType::i64)).dtype(), DType::i64);
  EXPECT_EQ(from_vector<std::int32_t>({4, 5}, here()).dtype(), DType::i32);
  EXPECT_EQ(download(scalar(4.5, here())).shape, Shape{});
  EXPECT_EQ(scalar(4.5, here()).item(), 4.5);
  EXPECT_EQ(download(full({2, 2}, 7, here())).values, std::vector<double>(4, 7));
  EXPECT_EQ(full({2, 2}, 7, here()).dtype(), DType::i64);
  EXPECT_EQ(full({2}, 7.5, here()).dtype(), DType::f32);
  EXPECT_EQ(full({2}, true, here()).dtype(), DType::boolean);
  EXPECT_EQ(download(zeros({3}, here())).values, std::vector<double>(3, 0));
  EXPECT_EQ(download(ones({3}, here())).values, std::vector<double>(3, 1));
  const Tensor like = upload(integers({2, 3}, 0, 9, DType::i32));
  EXPECT_EQ(download(zeros_like(like)).values, std::vector<double>(6, 0));
  EXPECT_EQ(ones_like(like).dtype(), DType::i32);
  EXPECT_EQ(ones_like(like).device(), test_device());
  EXPECT_EQ(download(zeros({0, 4}, here())).values.size(), 0u);
}

TEST(Conformance, ConstantsInExpressions) {
  const Array x = numbers({5});
  expect_result(
      {x}, [](const auto& in) { return in[0] * ones_like(in[0]) + full({5}, 2.5, here()); },
      mapped(x, [](double v) { return v + 2.5; }), exact_in(DType::f32));
  expect_result({x}, [](const auto& in) { return in[0] * 0; },
                mapped(x, [](double v) { return v * 0; }), {});
  // x * 0 is not 0 if x is not finite; x - x and x / x are special too.
  const Array special({3}, {kNan, kInf, 1});
  expect_result({special}, [](const auto& in) { return in[0] * 0; }, Array({3}, {kNan, kNan, 0}),
                {});
  expect_result({special}, [](const auto& in) { return in[0] - in[0]; },
                Array({3}, {kNan, kNan, 0}), {});
  expect_result({special}, [](const auto& in) { return in[0] / in[0]; },
                Array({3}, {kNan, kNan, 1}), {});
}

TEST(Conformance, Arange) {
  for (const DType dtype : {DType::i64, DType::i32, DType::f32}) {
    std::vector<double> expected(1000);
    std::iota(expected.begin(), expected.end(), 0.0);
    const Tensor x = arange(1000, here(dtype));
    EXPECT_EQ(x.dtype(), dtype);
    EXPECT_EQ(download(x).values, expected);
  }
  EXPECT_EQ(arange(3, here()).dtype(), DType::i64);
  EXPECT_EQ(arange(0, here()).numel(), 0);
  expect_result({}, [](const auto&) { return arange(6, here()).reshape({2, 3}).t() * 2; },
                Array({3, 2}, {0, 6, 2, 8, 4, 10}, DType::i64), {});
}

// ---- Random numbers.

TEST(Conformance, UniformNumbersFillTheirRange) {
  manual_seed(3);
  const auto u = rand({100'003}, here()).to_vector<float>();
  EXPECT_GE(*std::min_element(u.begin(), u.end()), 0.0f);
  EXPECT_LT(*std::max_element(u.begin(), u.end()), 1.0f);
  double sum = 0, squares = 0;
  for (const float x : u) {
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  EXPECT_NEAR(sum / u.size(), 0.5, 0.005);  // five standard deviations of the mean
  EXPECT_NEAR(squares / u.size(), 1.0 / 3, 0.005);
  const auto v = uniform({50'000}, -3, 5, here()).to_vector<float>();
  EXPECT_GE(*std::min_element(v.begin(), v.end()), -3.0f);
  EXPECT_LE(*std::max_element(v.begin(), v.end()), 5.0f);
  EXPECT_NEAR(std::accumulate(v.begin(), v.end(), 0.0) / v.size(), 1, 0.06);
}

TEST(Conformance, NormalNumbersHaveTheirMoments) {
  manual_seed(4);
  const auto z = randn({100'003}, here()).to_vector<float>();
  double m[5] = {};
  for (const double x : z) {
    for (int k = 1; k < 5; ++k) m[k] += std::pow(x, k) / static_cast<double>(z.size());
  }
  EXPECT_NEAR(m[1], 0, 0.016);
  EXPECT_NEAR(m[2], 1, 0.025);
  EXPECT_NEAR(m[3], 0, 0.07);
  EXPECT_NEAR(m[4], 3, 0.16);
  for (const float x : z) ASSERT_TRUE(std::isfinite(x));
}

TEST(Conformance, RandomNumbersFollowTheSeed) {
  const auto draw = [](std::uint64_t seed) {
    manual_seed(seed);
    std::vector<double> all;
    for (int i = 0; i < 2; ++i) {
      const auto part = download(rand({37}, here())).values;
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  const auto first = draw(1);
  EXPECT_EQ(draw(1), first);
  EXPECT_NE(draw(2), first);
  EXPECT_EQ(std::set<double>(first.begin(), first.end()).size(), first.size());
}

TEST(Conformance, IntegersAreEqualOnEveryDevice) {
  const auto draw = [](Device device, std::int64_t low, std::int64_t high) {
    manual_seed(9);
    return randint(low, high, {1001}, {.device = device}).to_vector<std::int64_t>();
  };
  const auto x = draw(test_device(), -3, 8);
  EXPECT_EQ(x, draw(Device::cpu(), -3, 8));
  EXPECT_EQ(*std::min_element(x.begin(), x.end()), -3);
  EXPECT_EQ(*std::max_element(x.begin(), x.end()), 7);
  if (has(DType::f64)) {
    const auto wide = draw(test_device(), 0, std::int64_t{1} << 32);
    EXPECT_EQ(wide, draw(Device::cpu(), 0, std::int64_t{1} << 32));
    EXPECT_GT(*std::max_element(wide.begin(), wide.end()), std::int64_t{1} << 31);
  }
  EXPECT_EQ(randint(0, 2, {4}, here(DType::i32)).dtype(), DType::i32);
}

TEST(Conformance, NormalsAreNearlyEqualOnEveryDevice) {
  const auto draw = [](Device device) {
    manual_seed(10);
    return randn({1001}, {.device = device}).to_vector<float>();
  };
  const auto a = draw(test_device()), b = draw(Device::cpu());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6 * (1 + std::fabs(b[i])));
}

TEST(Conformance, RandomNumbersOfOtherDtypes) {
  for (const DType dtype : {DType::f64, DType::f16}) {
    if (!has(dtype) || (dtype == DType::f16 && !thorough())) continue;
    manual_seed(5);
    const Tensor u = rand({2001}, here(dtype)), z = randn({2001}, here(dtype));
    EXPECT_EQ(u.dtype(), dtype);
    EXPECT_EQ(z.dtype(), dtype);
    const auto values = download(u).values;
    EXPECT_NEAR(total(values) / 2001, 0.5, 0.04);
    EXPECT_NEAR(total(download(z).values) / 2001, 0, 0.12);
  }
}

}  // namespace
}  // namespace volta::conformance
