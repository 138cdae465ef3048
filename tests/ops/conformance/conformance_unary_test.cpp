// Conformance of operations with one operand.
#include <set>

#include "ops/conformance/conformance_layouts.h"

namespace volta::conformance {
namespace {

struct Unary {
  const char* name;
  Tensor (*free)(const Tensor&);
  Tensor (*method)(const Tensor&);
  double (*reference)(double);
  double low, high;    // the domain
  double kink = kNan;  // gradients are not tested near it
  bool exact = false;  // correctly rounded, or nearly
};

void PrintTo(const Unary& op, std::ostream* out) { *out << op.name; }

#define VOLTA_UNARY(name, reference, ...)                                                       \
  Unary {                                                                                       \
    #name, [](const Tensor& x) { return volta::name(x); },                                      \
        [](const Tensor& x) { return x.name(); }, [](double x) -> double { return reference; }, \
        __VA_ARGS__                                                                             \
  }

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_of(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
}
double softplus_of(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }
double maximum_of(double x, double y) { return std::isnan(x) || x > y ? x : y; }

const Unary kUnary[] = {
    VOLTA_UNARY(neg, -x, -3, 3, kNan, true),
    VOLTA_UNARY(abs, std::fabs(x), -3, 3, 0, true),
    VOLTA_UNARY(sign, (x > 0) - (x < 0), -3, 3, 0, true),
    VOLTA_UNARY(exp, std::exp(x), -6, 6),
    VOLTA_UNARY(expm1, std::expm1(x), -3, 3),
    VOLTA_UNARY(log, std::log(x), 0.01, 9),
    VOLTA_UNARY(log1p, std::log1p(x), -0.9, 9),
    VOLTA_UNARY(sqrt, std::sqrt(x), 0.01, 9, kNan, true),
    VOLTA_UNARY(rsqrt, 1 / std::sqrt(x), 0.1, 9, kNan, true),
    VOLTA_UNARY(square, x* x, -3, 3, kNan, true),
    VOLTA_UNARY(reciprocal, 1 / x, 0.2, 3, kNan, true),
    VOLTA_UNARY(sin, std::sin(x), -9, 9),
    VOLTA_UNARY(cos, std::cos(x), -9, 9),
    VOLTA_UNARY(tanh, std::tanh(x), -4, 4),
    VOLTA_UNARY(sigmoid, sigmoid_of(x), -9, 9),
    VOLTA_UNARY(erf, std::erf(x), -3, 3),
    VOLTA_UNARY(floor, std::floor(x), -5, 5, kNan, true),
    VOLTA_UNARY(relu, std::isnan(x) ? x : std::max(x, 0.0), -3, 3, 0, true),
    VOLTA_UNARY(gelu, gelu_of(x), -4, 4),
    VOLTA_UNARY(silu, x* sigmoid_of(x), -6, 6),
    VOLTA_UNARY(exp2, std::exp2(x), -6, 6),
    VOLTA_UNARY(log2, std::log2(x), 0.01, 9),
    VOLTA_UNARY(log10, std::log10(x), 0.01, 9),
    VOLTA_UNARY(tan, std::tan(x), -1.4, 1.4),
    VOLTA_UNARY(asin, std::asin(x), -0.95, 0.95),
    VOLTA_UNARY(acos, std::acos(x), -0.95, 0.95),
    VOLTA_UNARY(atan, std::atan(x), -9, 9),
    VOLTA_UNARY(sinh, std::sinh(x), -3, 3),
    VOLTA_UNARY(cosh, std::cosh(x), -3, 3),
    VOLTA_UNARY(asinh, std::asinh(x), -9, 9),
    VOLTA_UNARY(acosh, std::acosh(x), 1.1, 9),
    VOLTA_UNARY(atanh, std::atanh(x), -0.95, 0.95),
    VOLTA_UNARY(erfc, std::erfc(x), -3, 3),
    VOLTA_UNARY(ceil, std::ceil(x), -5, 5, kNan, true),
    VOLTA_UNARY(round, std::nearbyint(x), -5, 5, kNan, true),
    VOLTA_UNARY(leaky_relu, x > 0 ? x : 0.01 * x, -3, 3, 0, true),
    VOLTA_UNARY(elu, x <= 0 ? std::expm1(x) : x, -3, 3, 0),
    VOLTA_UNARY(softplus, softplus_of(x), -6, 6),
    VOLTA_UNARY(mish, x* std::tanh(softplus_of(x)), -6, 6),
    VOLTA_UNARY(hardswish,
                x*(x + 3 > 6   ? 6.0
                   : x + 3 < 0 ? 0.0
                               : x + 3) /
                    6,
                -5, 5),
    Unary{"gelu_tanh", [](const Tensor& x) { return gelu(x, {.tanh = true}); },
          [](const Tensor& x) { return x.gelu({.tanh = true}); }, gelu_tanh_of, -4, 4},
};
#undef VOLTA_UNARY

class UnaryConformance : public ::testing::TestWithParam<Unary> {
 protected:
  Tolerance tolerance(DType dtype) const {
    // exp overflows only relative to its size: results go up to 400.
    return GetParam().exact ? exact_in(dtype) : close_in(dtype);
  }
  Array input(const Shape& shape, DType dtype = DType::f32) const {
    return numbers(shape, GetParam().low, GetParam().high, dtype);
  }
  // Operations whose kernels are compiled for every shape, even where that takes long.
  bool is_sample() const {
    const std::string name = GetParam().name;
    return name == "exp" || name == "silu" || name == "atan";
  }
  bool is_step() const {
    const std::string name = GetParam().name;
    return name == "floor" || name == "ceil" || name == "round";
  }
  // Inputs away from kinks and steps.
  Array smooth_input() const {
    Array x = input({11}, widest());
    for (double& value : x.values) {
      if (std::fabs(value - GetParam().kink) < 0.05) value += 0.2;
      if (std::string(GetParam().name) == "hardswish" && std::fabs(std::fabs(value) - 3) < 0.05)
        value += 0.2;
      if (is_step() && std::fabs(value - std::nearbyint(value)) < 0.05) value += 0.2;
    }
    return x;
  }
  Function function() const {
    return [free = GetParam().free](const std::vector<Tensor>& in) { return free(in[0]); };
  }
};

TEST_P(UnaryConformance, Shapes) {
  const bool all = thorough() || is_sample();
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{0, 3}, Shape{1}, Shape{7}, Shape{100'003},
                             Shape{5, 13}, Shape{3, 5, 7}}) {
    if (!all && shape != Shape{7}) continue;
    const Array x = input(shape);
    expect_result({x}, function(), mapped(x, GetParam().reference), tolerance(DType::f32));
  }
}

TEST_P(UnaryConformance, DoublePrecision) {
  if (!has(DType::f64)) GTEST_SKIP() << "no f64 here";
  const Array x = input({257}, DType::f64);
  expect_result({x}, function(), mapped(x, GetParam().reference), tolerance(DType::f64));
}

TEST_P(UnaryConformance, SpecialValues) {
  const Array x({9}, {kNan, kInf, -kInf, 0.0, -0.0, 1.0, -1.0, 88.0, -88.0});
  const std::string name = GetParam().name;
  static const std::set<std::string> grows{"exp", "expm1", "exp2", "sinh", "cosh"};
  // Beyond 2^23 every number is whole; sin and cos of infinity are NaN in every libm.
  expect_result({x}, function(), mapped(x, GetParam().reference),
                grows.count(name) != 0 ? Tolerance{2e-5, 0} : Tolerance{2e-6, 1e-6});
}

TEST_P(UnaryConformance, MethodOnAView) {
  const std::string name = GetParam().name;
  // Views do not depend on the operation: a simple and a composed one give enough kernels.
  if (name != "abs" && name != "gelu") GTEST_SKIP() << "covered by abs and gelu";
  const Array x = input({6, 9});
  const Unary op = GetParam();
  expect_result(
      {x}, [&](const std::vector<Tensor>& in) { return op.method(in[0].t().narrow(0, 2, 5)); },
      mapped(narrowed(permuted(x, {1, 0}), 0, 2, 5), op.reference), tolerance(DType::f32));
}

TEST_P(UnaryConformance, LayoutsAndDtypes) {
  if (!thorough()) GTEST_SKIP() << "golden values cover it";
  for (const DType dtype : kFloats) {
    if (!has(dtype)) continue;
    const Array x = input({6, 9}, dtype);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(layout.name);
      expect_result(
          {x}, [&](const auto& in) { return GetParam().free(layout.of_tensor(in[0])); },
          mapped(layout.of_array(x), GetParam().reference), tolerance(dtype));
    }
  }
}

TEST_P(UnaryConformance, Method) {
  const Array x = input({33});
  const Unary op = GetParam();
  expect_result(
      {x}, [&](const std::vector<Tensor>& in) { return op.method(in[0]); }, mapped(x, op.reference),
      tolerance(DType::f32));
}

TEST_P(UnaryConformance, Gradient) {
  if (!thorough() && !is_sample()) GTEST_SKIP() << "golden values cover it";
  expect_gradients({smooth_input()}, function());
}

// x f'(x) / 10, whose gradient contains the second derivative.
TEST_P(UnaryConformance, SecondGradient) {
  if (!thorough()) GTEST_SKIP() << "golden values cover it";
  expect_gradients({smooth_input()}, [f = function()](const std::vector<Tensor>& in) {
    const EnableGrad recording;
    Tensor x = in[0].requires_grad() ? in[0] : in[0].detach().set_requires_grad();
    return x * 0.1 * grad(f({x}), x, {.grad_outputs = {ones_like(x)}, .create_graph = true});
  });
}

INSTANTIATE_TEST_SUITE_P(Ops, UnaryConformance, ::testing::ValuesIn(kUnary),
                         [](const auto& info) { return std::string(info.param.name); });

// Fails until a new row of the table has a reference.
TEST(Conformance, EveryUnaryOperationHasAReference) {
  std::set<std::string> known;
  for (const Unary& op : kUnary) known.insert(op.name);
  for (const char* name : {
#define VOLTA_UNARY(name) #name,
#include "ops/elementwise_rows.def"
       }) {
    EXPECT_EQ(known.count(name), 1u) << name;
  }
}

TEST(Conformance, SignsOfZero) {
  const Array x({2}, {0.0, -0.0});
  const auto signs = [](const Array& a) {
    return std::vector<bool>{std::signbit(a.values[0]), std::signbit(a.values[1])};
  };
  EXPECT_EQ(signs(run({x}, [](const auto& in) { return in[0].neg(); })),
            (std::vector<bool>{true, false}));
  EXPECT_EQ(signs(run({x}, [](const auto& in) { return in[0].abs(); })),
            (std::vector<bool>{false, false}));
  EXPECT_EQ(signs(run({x}, [](const auto& in) { return in[0].sqrt(); })),
            (std::vector<bool>{false, true}));
  EXPECT_EQ(signs(run({x}, [](const auto& in) { return in[0].floor(); })),
            (std::vector<bool>{false, true}));
  EXPECT_EQ(signs(run({x}, [](const auto& in) { return in[0].ceil() + in[0].round(); })),
            (std::vector<bool>{false, true}));
  EXPECT_EQ(
      signs(run({x}, [](const auto& in) { return in[0].asin() + in[0].atan() + in[0].tan(); })),
      (std::vector<bool>{false, true}));
  EXPECT_EQ(signs(run({x}, [](const auto& in) { return in[0].asinh() + in[0].atanh(); })),
            (std::vector<bool>{false, true}));
  EXPECT_EQ(signs(run({x}, [](const auto& in) { return in[0].tanh(); })),
            (std::vector<bool>{false, true}));
}

TEST(Conformance, UnaryOfIntegers) {
  const Array x({7}, {-3, -1, 0, 1, 2, 100, -100}, DType::i32);
  const auto check = [&](Tensor (*op)(const Tensor&, SourceLocation), double (*reference)(double),
                         DType result, Tolerance tolerance) {
    Array expected = mapped(x, reference);
    expected.dtype = result;
    expect_result(
        {x}, [&](const auto& in) { return op(in[0], SourceLocation::here()); }, expected,
        tolerance);
  };
  check(neg, [](double v) { return -v; }, DType::i32, {});
  check(abs, [](double v) { return std::fabs(v); }, DType::i32, {});
  check(logical_not, [](double v) -> double { return v == 0; }, DType::boolean, {});
  if (!thorough()) return;
  check(sign, [](double v) -> double { return (v > 0) - (v < 0); }, DType::i32, {});
  check(square, [](double v) { return v * v; }, DType::i32, {});
  check(relu, [](double v) { return maximum_of(v, 0); }, DType::i32, {});
  check(sigmoid, sigmoid_of, DType::f32, close_in(DType::f32));
  const Array same = download(floor(upload(x)));
  EXPECT_EQ(same.values, x.values);
  EXPECT_EQ(same.dtype, DType::i32);
}

TEST(Conformance, NotANumberAndInfinite) {
  const Array x({6}, {kNan, kInf, -kInf, 0, 1, -3});
  expect_result({x}, [](const auto& in) { return in[0].isnan(); },
                Array({6}, {1, 0, 0, 0, 0, 0}, DType::boolean), {});
  expect_result({x}, [](const auto& in) { return in[0].isinf(); },
                Array({6}, {0, 1, 1, 0, 0, 0}, DType::boolean), {});
  const Tensor whole = upload(integers({5}, -2, 2, DType::i32));
  EXPECT_EQ(download(isnan(whole)).values, std::vector<double>(5, 0));
  EXPECT_EQ(isinf(whole).dtype(), DType::boolean);
}

TEST(Conformance, ParametersOfActivations) {
  const Array x = numbers({33}, -3, 3);
  const auto check = [&](const Function& f, double (*reference)(double)) {
    expect_result({x}, f, mapped(x, reference), close_in(DType::f32));
  };
  check([](const auto& in) { return leaky_relu(in[0], 0.25); },
        [](double v) { return v > 0 ? v : 0.25 * v; });
  check([](const auto& in) { return elu(in[0], 1.75); },
        [](double v) { return v > 0 ? v : 1.75 * std::expm1(v); });
  check([](const auto& in) { return softplus(in[0], 2, 1.5); },
        [](double v) { return 2 * v > 1.5 ? v : std::log1p(std::exp(2 * v)) / 2; });
  check([](const auto& in) { return swish(in[0]); }, [](double v) { return v * sigmoid_of(v); });
}

TEST(Conformance, Clamp) {
  const Array x({7}, {-3, -1, 0, 0.5, 1, 2, kNan}), low = numbers({7}, -1, 0), high({}, {0.75});
  const auto check = [&](const Function& f, std::vector<double> expected) {
    expect_result({x, low, high}, f, Array({7}, std::move(expected)), {});
  };
  check([](const auto& in) { return clamp(in[0], -1, 1); }, {-1, -1, 0, 0.5, 1, 1, kNan});
  check([](const auto& in) { return in[0].clamp(-1, {}); }, {-1, -1, 0, 0.5, 1, 2, kNan});
  check([](const auto& in) { return clamp(in[0], {}, 1); }, {-3, -1, 0, 0.5, 1, 1, kNan});
  check([](const auto& in) { return clamp(in[0], 1, -1); }, {-1, -1, -1, -1, -1, -1, kNan});
  std::vector<double> bounded;
  for (std::size_t i = 0; i < 7; ++i)
    bounded.push_back(
        std::isnan(x.values[i]) ? kNan : std::min(std::max(x.values[i], low.values[i]), 0.75));
  check([](const auto& in) { return clamp(in[0], in[1], in[2]); }, bounded);
  const Array whole({4}, {-5, 0, 3, 9}, DType::i64);
  expect_result({whole}, [](const auto& in) { return in[0].clamp(-1, 4); },
                Array({4}, {-1, 0, 3, 4}, DType::i64), {});
  expect_result({whole}, [](const auto& in) { return in[0].clamp(-1, 4.5); },
                Array({4}, {-1, 0, 3, 4.5}), {});
  expect_gradients({numbers({11}), numbers({11}, -1.5, 0), numbers({11}, 0.5, 1.5)},
                   [](const auto& in) { return clamp(in[0], in[1], in[2]); });
}

TEST(Conformance, LogicalNot) {
  const Array flags({3}, {1, 0, 1}, DType::boolean);
  expect_result({flags}, [](const auto& in) { return logical_not(in[0]); },
                Array({3}, {0, 1, 0}, DType::boolean), {});
  const Array x({4}, {0, -0.0, 2, kNan});
  expect_result({x}, [](const auto& in) { return in[0].logical_not(); },
                Array({4}, {1, 1, 0, 0}, DType::boolean), {});
}

// ---- Storage dtypes and casts.

TEST(Conformance, Casts) {
  const Array x({8}, {0, 1, -1.5, 2.5, 100.75, -3.999, 0.001, 65000});
  for (const DType to :
       {DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::boolean}) {
    if (!has(to)) continue;
    expect_result({x}, [&](const auto& in) { return in[0].to(to); }, x.as(to), {});
  }
  const Array small({6}, {0, 1, 2, 100, 255, 7}, DType::u8);
  for (const DType to : {DType::f32, DType::i32, DType::i64, DType::boolean}) {
    if (!thorough() && to != DType::i64) continue;
    expect_result({small}, [&](const auto& in) { return in[0].to(to); }, small.as(to), {});
  }
  const Array wide({4}, {-5, 0, 7, 2147483647.0}, DType::i64);
  expect_result({wide}, [](const auto& in) { return in[0].to(DType::i32); }, wide.as(DType::i32),
                {});
  expect_result({wide}, [](const auto& in) { return in[0].to(DType::f32); }, wide.as(DType::f32),
                {});
  const Array flags({3}, {1, 0, 1}, DType::boolean);
  expect_result({flags}, [](const auto& in) { return in[0].to(DType::f32); }, flags.as(DType::f32),
                {});
}

TEST(Conformance, HalfTypesRoundToNearestEven) {
  for (const DType half : {DType::f16, DType::bf16}) {
    if (!has(half)) continue;
    // Ties, subnormals, overflow, and special values.
    const Array x({10}, {1 + 0x1p-11, 1 + 3 * 0x1p-11, 1 + 0x1p-8, 1 + 3 * 0x1p-8, 0x1p-24,
                         3 * 0x1p-25, 65519, kInf, -kInf, kNan});
    expect_result({x}, [&](const auto& in) { return in[0].to(half); }, x.as(half), {});
    // f32 -> half -> f32 in one kernel rounds as well: the cast is not optimised away.
    Array back = x.as(half);
    back.dtype = DType::f32;
    expect_result({x}, [&](const auto& in) { return in[0].to(half).to(DType::f32); }, back, {});
  }
}

TEST(Conformance, HalfTypesAdd) {
  for (const DType half : {DType::f16, DType::bf16}) {
    if (!has(half)) continue;
    const Array a = numbers({1001}, -4, 4, half), b = numbers({1001}, -4, 4, half, 0.9);
    const Array expected =
        combined(a, b, [&](double x, double y) { return in_dtype(x + y, half); });
    expect_result({a, b}, [](const auto& in) { return in[0] + in[1]; }, expected, exact_in(half));
  }
}

TEST(Conformance, CloneIsACopyOfItsOwn) {
  const Array x = numbers({5, 3});
  expect_result({x}, [](const auto& in) { return in[0].clone(); }, x, {});
  Tensor a = upload(x);
  const Tensor b = a.clone();
  a.zero_();
  EXPECT_EQ(download(b).values, x.values);
}

TEST(Conformance, CastGradient) {
  if (!has(DType::f64)) GTEST_SKIP() << "no f64 here";
  Tensor x = upload(numbers({5}), true);
  (x.to(DType::f64) * upload(numbers({5}, 1, 2, DType::f64))).sum().backward();
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  const Array expected = numbers({5}, 1, 2, DType::f64);
  expect_close(download(x.grad()), expected.as(DType::f32), exact_in(DType::f32));
}

// Where the nearest number is 1, the gradient is 0, even if a driver's function never reaches 1.
TEST(Limits, TanhIsOneAndFlat) {
  const std::vector<double> points{9.05, 12, 20, 30, 88, 1e4, kInf, -9.05, -20, -kInf};
  const Tensor x =
      from_vector(points, {.dtype = DType::f32, .device = test_device(), .requires_grad = true});
  const Tensor y = x.tanh();
  y.sum().backward();
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(y.to_vector<float>()[i], points[i] > 0 ? 1 : -1) << points[i];
    EXPECT_EQ(x.grad().to_vector<float>()[i], 0) << points[i];
  }
}

}  // namespace
}  // namespace volta::conformance
