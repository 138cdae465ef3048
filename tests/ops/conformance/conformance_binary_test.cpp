// Conformance of operations with two and three operands.
#include "ops/conformance/conformance_layouts.h"

namespace volta::conformance {
namespace {

struct Binary {
  const char* name;
  Tensor (*op)(const Operand&, const Operand&);
  double (*reference)(double, double);
  bool compares = false;
  bool integers = true;  // defined for integer dtypes, with a result of the same dtype
  bool differentiable = true;
};

void PrintTo(const Binary& op, std::ostream* out) { *out << op.name; }

double greater_of(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double lesser_of(double a, double b) { return std::isnan(a) || a < b ? a : b; }

double mod_of(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
double floor_div_of(double a, double b) {
  if (b == 0) return a / b;
  const double rest = std::fmod(a, b), whole = std::nearbyint((a - rest) / b);
  return rest != 0 && (rest < 0) != (b < 0) ? whole - 1 : whole;
}

#define VOLTA_BINARY(name, expression, ...)                                                  \
  Binary {                                                                                   \
    #name, volta::name, [](double a, double b) -> double { return expression; }, __VA_ARGS__ \
  }

const Binary kBinary[] = {
    VOLTA_BINARY(add, a + b, false),
    VOLTA_BINARY(sub, a - b, false),
    VOLTA_BINARY(mul, a* b, false),
    VOLTA_BINARY(div, a / b, false, false),
    VOLTA_BINARY(fmod, std::fmod(a, b), false),
    VOLTA_BINARY(mod, mod_of(a, b), false),
    VOLTA_BINARY(floor_div, floor_div_of(a, b), false),
    VOLTA_BINARY(pow, std::pow(a, b), false),
    VOLTA_BINARY(atan2, std::atan2(a, b), false, false),
    VOLTA_BINARY(maximum, greater_of(a, b), false),
    VOLTA_BINARY(minimum, lesser_of(a, b), false),
    VOLTA_BINARY(lt, a < b, true, true, false),
    VOLTA_BINARY(le, a <= b, true, true, false),
    VOLTA_BINARY(gt, a > b, true, true, false),
    VOLTA_BINARY(ge, a >= b, true, true, false),
    VOLTA_BINARY(eq, a == b, true, true, false),
    VOLTA_BINARY(ne, a != b, true, true, false),
    VOLTA_BINARY(logical_and, a != 0 && b != 0, true, true, false),
    VOLTA_BINARY(logical_or, a != 0 || b != 0, true, true, false),
    VOLTA_BINARY(logical_xor, (a != 0) != (b != 0), true, true, false),
};
#undef VOLTA_BINARY

class BinaryConformance : public ::testing::TestWithParam<Binary> {
 protected:
  // Whether the operation is one of these, or the device runs all of them.
  bool is_one_of(std::initializer_list<const char*> names) const {
    return thorough() ||
           std::find(names.begin(), names.end(), std::string(GetParam().name)) != names.end();
  }
  bool is_pow() const { return std::string(GetParam().name) == "pow"; }
  Tolerance tolerance(DType dtype) const {
    const std::string name = GetParam().name;
    return is_pow() || name == "atan2" ? close_in(dtype) : exact_in(dtype);
  }
  Array left(const Shape& shape, DType dtype = DType::f32) const {
    return numbers(shape, is_pow() ? 0.1 : -3, 3, dtype);
  }
  // Finite differences near a step say nothing.
  bool is_step() const {
    const std::string name = GetParam().name;
    return name == "mod" || name == "fmod" || name == "floor_div";
  }
  Array right(const Shape& shape, DType dtype = DType::f32) const {
    const std::string name = GetParam().name;
    return name == "div" ? numbers(shape, 0.3, 3, dtype, 0.81) : numbers(shape, -3, 3, dtype, 0.81);
  }
  Array expected(const Array& a, const Array& b) const {
    Array result = combined(a, b, GetParam().reference);
    if (GetParam().compares) result.dtype = DType::boolean;
    return result;
  }
  void check(const Array& a, const Array& b) const {
    expect_result(
        {a, b}, [op = GetParam().op](const auto& in) { return op(in[0], in[1]); }, expected(a, b),
        tolerance(a.dtype));
  }
};

TEST_P(BinaryConformance, Shapes) {
  for (const Shape& shape :
       {Shape{0}, Shape{2, 0}, Shape{7}, Shape{100'003}, Shape{5, 13}, Shape{3, 5, 7}}) {
    if (shape != Shape{7} && !is_one_of({"mul", "pow", "lt", "floor_div"})) continue;
    check(left(shape), right(shape));
  }
}

TEST_P(BinaryConformance, RowsAgainstColumns) {
  if (!is_one_of({"mul", "pow", "lt"})) GTEST_SKIP() << "covered by the others";
  check(left({5, 1}), right({1, 13}));
  check(left({9, 1}), right({4}));
  check(left({0, 1}), right({4}));
}

TEST_P(BinaryConformance, SpecialValues) {
  std::vector<double> values{kNan, kInf, -kInf, 0.0, -0.0, 1.0, -2.0, 0.5}, a, b;
  for (const double x : values) {
    for (const double y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  const Array left({64}, a), right({64}, b);
  check(left, right);
}

TEST_P(BinaryConformance, Numbers) {
  if (!is_one_of({"sub", "div", "pow", "le"})) GTEST_SKIP() << "covered by the others";
  const auto op = GetParam().op;
  const Array x = left({31});
  const double number = 1.75;
  const Array n({}, {number});
  expect_result(
      {x}, [&](const auto& in) { return op(in[0], number); }, expected(x, n),
      tolerance(DType::f32));
  Array turned = expected(n, x);
  expect_result(
      {x}, [&](const auto& in) { return op(number, in[0]); }, turned, tolerance(DType::f32));
}

TEST_P(BinaryConformance, Integers) {
  if (!is_one_of({"sub", "mul", "div", "lt", "mod", "floor_div", "pow", "atan2"}))
    GTEST_SKIP() << "covered by the others";
  const DType dtype = DType::i64;
  const Array a = integers({101}, -9, 9, dtype),
              b = integers({101}, is_step() ? -9 : 1, 9, dtype, 5);
  Array result = combined(a, b, [&](double x, double y) {
    return is_step() && y == 0 ? 0 : GetParam().reference(x, y);
  });
  result.dtype = GetParam().compares ? DType::boolean : GetParam().integers ? dtype : DType::f32;
  expect_result(
      {a, b}, [op = GetParam().op](const auto& in) { return op(in[0], in[1]); }, result,
      GetParam().integers ? Tolerance{} : close_in(DType::f32));
}

TEST_P(BinaryConformance, LayoutsAndDtypes) {
  if (!thorough()) GTEST_SKIP() << "golden values cover it";
  const auto op = GetParam().op;
  const auto check_laid = [&](const Array& a, const Array& b, DType result, Tolerance tolerance) {
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(layout.name);
      Array expected = combined(layout.of_array(a), layout.of_array(b), GetParam().reference);
      expected.dtype = GetParam().compares ? DType::boolean : result;
      const auto laid = [&](const auto& in) {
        return op(layout.of_tensor(in[0]), layout.of_tensor(in[1]));
      };
      expect_result({a, b}, laid, expected, tolerance);
    }
  };
  for (const DType dtype : kFloats) {
    if (has(dtype)) check_laid(left({6, 9}, dtype), right({6, 9}, dtype), dtype, tolerance(dtype));
  }
  for (const DType dtype : kIntegers) {
    // No differences below 0 and no powers above 255, because bytes would wrap.
    const bool bytes = dtype == DType::u8;
    const Array a = integers({6, 9}, bytes ? 4 : -9, bytes ? 6 : 9, dtype),
                b = integers({6, 9}, 1, bytes ? 3 : 8, dtype, 5);
    check_laid(a, b, GetParam().integers ? dtype : DType::f32,
               GetParam().integers ? Tolerance{} : close_in(DType::f32));
  }
}

TEST_P(BinaryConformance, DoublePrecision) {
  if (!has(DType::f64)) GTEST_SKIP() << "no f64 here";
  if (GetParam().compares && std::string(GetParam().name) != "lt") GTEST_SKIP() << "covered by lt";
  check(left({19}, DType::f64), right({19}, DType::f64));
}

TEST_P(BinaryConformance, Gradient) {
  if (!GetParam().differentiable) GTEST_SKIP() << "no gradient";
  if (!is_one_of({"mul", "div", "pow", "atan2"})) GTEST_SKIP() << "golden values cover it";
  const Function f = [op = GetParam().op](const auto& in) { return op(in[0], in[1]); };
  Array a = numbers({7}, is_pow() ? 0.5 : -2, 2, widest());
  Array b = numbers({7}, 0.3, 2, widest(), 0.52);
  if (is_step()) {
    for (std::size_t i = 0; i < 7; ++i) {
      const double turns = a.values[i] / b.values[i];
      if (std::fabs(turns - std::nearbyint(turns)) < 0.1) a.values[i] += 0.3 * b.values[i];
    }
  }
  expect_gradients({a, b}, f);
}

TEST_P(BinaryConformance, GradientOfBroadcasting) {
  if (!GetParam().differentiable) GTEST_SKIP() << "no gradient";
  if (!is_one_of({"sub", "mul", "div"})) GTEST_SKIP() << "covered by the others";
  const Function f = [op = GetParam().op](const auto& in) { return op(in[0], in[1]); };
  expect_gradients(
      {numbers({3, 1}, is_pow() ? 0.5 : -2, 2), numbers({1, 4}, 0.3, 2, widest(), 0.52)}, f);
}

INSTANTIATE_TEST_SUITE_P(Ops, BinaryConformance, ::testing::ValuesIn(kBinary),
                         [](const auto& info) { return std::string(info.param.name); });

// All layouts in memory, with an operation that is not symmetric.
TEST(Conformance, OperandsOfEveryKind) {
  const auto minus = [](double a, double b) { return a - b; };
  struct Pair {
    Shape a, b;
  };
  for (const Pair& p : std::initializer_list<Pair>{{{}, {}},
                                                   {{}, {7}},
                                                   {{7}, {}},
                                                   {{1}, {7}},
                                                   {{7}, {1}},
                                                   {{1, 1}, {1}},
                                                   {{5, 13}, {13}},
                                                   {{13}, {5, 13}},
                                                   {{5, 13}, {5, 1}},
                                                   {{5, 1}, {5, 13}},
                                                   {{3, 1, 7}, {5, 1}},
                                                   {{5, 1}, {3, 1, 7}},
                                                   {{2, 0}, {1, 1}},
                                                   {{0}, {1}}}) {
    const Array a = numbers(p.a), b = numbers(p.b, -2, 2, DType::f32, 0.11);
    expect_result(
        {a, b}, [](const auto& in) { return in[0] - in[1]; }, combined(a, b, minus),
        exact_in(DType::f32));
  }
  const Array a = numbers({5, 13}), b = numbers({13, 5}, -2, 2, DType::f32, 0.11),
              c = numbers({3, 5, 4});
  expect_result(
      {a, b}, [](const auto& in) { return in[0] - in[1].t(); },
      combined(a, permuted(b, {1, 0}), minus), exact_in(DType::f32));
  expect_result(
      {a, b}, [](const auto& in) { return in[0].narrow(1, 3, 5) - in[1].narrow(0, 2, 5); },
      combined(narrowed(a, 1, 3, 5), narrowed(b, 0, 2, 5), minus), exact_in(DType::f32));
  const Array row = numbers({1, 4}, -2, 2, DType::f32, 0.3);
  expect_result(
      {c, row}, [](const auto& in) { return in[1].expand({3, 5, 4}) - in[0].permute({0, 1, 2}); },
      combined(expanded(row, {3, 5, 4}), c, minus), exact_in(DType::f32));
  expect_result(
      {c},
      [](const auto& in) {
        return in[0].permute({2, 0, 1}) - in[0].permute({2, 0, 1}).narrow(0, 1, 1);
      },
      combined(permuted(c, {2, 0, 1}), narrowed(permuted(c, {2, 0, 1}), 0, 1, 1), minus),
      exact_in(DType::f32));
}

TEST(Conformance, OperatorsAndMethods) {
  const Array a = numbers({31}, 0.1, 3), b = numbers({31}, 0.1, 3, DType::f32, 0.81);
  const auto check = [&](const Function& f, double (*reference)(double, double),
                         bool compares = false) {
    Array expected = combined(a, b, reference);
    if (compares) expected.dtype = DType::boolean;
    expect_result({a, b}, f, expected, compares ? Tolerance{} : close_in(DType::f32));
  };
  check([](const auto& in) { return in[0] + in[1]; }, [](double x, double y) { return x + y; });
  check([](const auto& in) { return in[0] - in[1]; }, [](double x, double y) { return x - y; });
  check([](const auto& in) { return in[0] * in[1]; }, [](double x, double y) { return x * y; });
  check([](const auto& in) { return in[0] / in[1]; }, [](double x, double y) { return x / y; });
  check([](const auto& in) { return in[0].pow(in[1]); },
        [](double x, double y) { return std::pow(x, y); });
  check([](const auto& in) { return in[0].maximum(in[1]); }, greater_of);
  check([](const auto& in) { return in[0].minimum(in[1]); }, lesser_of);
  check([](const auto& in) { return in[0] < in[1]; },
        [](double x, double y) -> double { return x < y; }, true);
  check([](const auto& in) { return in[0] <= in[1]; },
        [](double x, double y) -> double { return x <= y; }, true);
  check([](const auto& in) { return in[0] > in[1]; },
        [](double x, double y) -> double { return x > y; }, true);
  check([](const auto& in) { return in[0] >= in[1]; },
        [](double x, double y) -> double { return x >= y; }, true);
  check([](const auto& in) { return in[0].lt(in[1]); },
        [](double x, double y) -> double { return x < y; }, true);
  check([](const auto& in) { return in[0].le(in[1]); },
        [](double x, double y) -> double { return x <= y; }, true);
  check([](const auto& in) { return in[0].gt(in[1]); },
        [](double x, double y) -> double { return x > y; }, true);
  check([](const auto& in) { return in[0].ge(in[1]); },
        [](double x, double y) -> double { return x >= y; }, true);
  check([](const auto& in) { return in[0].eq(in[1]); },
        [](double x, double y) -> double { return x == y; }, true);
  check([](const auto& in) { return in[0].ne(in[1]); },
        [](double x, double y) -> double { return x != y; }, true);
  expect_result({a}, [](const auto& in) { return -in[0]; }, mapped(a, [](double x) { return -x; }),
                {});
}

TEST(Conformance, Promotion) {
  const Array f = numbers({13}), i = integers({13}, -9, 9, DType::i32),
              l = integers({13}, -9, 9, DType::i64, 3), t = integers({13}, 0, 1, DType::boolean, 4);
  const auto plus = [](double a, double b) { return a + b; };
  const auto check = [&](const Array& a, const Array& b, DType dtype) {
    Array expected = combined(a, b, plus);
    expected.dtype = dtype;
    expect_result({a, b}, [](const auto& in) { return in[0] + in[1]; }, expected, close_in(dtype));
  };
  check(f, i, DType::f32);
  check(i, l, DType::i64);
  check(t, i, DType::i32);
  Array halves = mapped(i, [](double v) { return v * 0.5; });
  halves.dtype = DType::f32;
  expect_result({i}, [](const auto& in) { return in[0] * 0.5; }, halves, {});
  Array more = mapped(t, [](double v) { return v + 2; });
  more.dtype = DType::i64;
  expect_result({t}, [](const auto& in) { return in[0] + 2; }, more, {});
  Array both = combined(t, t, [](double a, double b) -> double { return a != 0 || b != 0; });
  expect_result({t, t}, [](const auto& in) { return in[0] + in[1]; }, both, {});
}

TEST(Conformance, IntegersKeepTheirBits) {
  // 2^53 + 1 and similar numbers: nothing is computed in floating point.
  const std::vector<std::int64_t> a{9007199254740993, -9007199254740993,
                                    std::numeric_limits<std::int64_t>::max()};
  const Tensor x = from_vector(a, {.device = test_device()});
  EXPECT_EQ((x + 0).to_vector<std::int64_t>(), a);
  EXPECT_EQ((x - 9007199254740992).to_vector<std::int64_t>()[0], 1);
  EXPECT_EQ(x.maximum(9007199254740992).to_vector<std::int64_t>()[0], a[0]);
  EXPECT_EQ((x % 10).to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 7, 7}));
  EXPECT_EQ(floor_div(x, 10).to_vector<std::int64_t>()[1], -900719925474100);
  EXPECT_EQ(pow(x, 2).to_vector<std::int64_t>()[0], 18014398509481985);
  EXPECT_EQ((x * 3).to_vector<std::int64_t>()[1], -27021597764222979);
  EXPECT_EQ(full({2}, std::int64_t{9007199254740993}, {.device = test_device()})
                .to_vector<std::int64_t>()[1],
            9007199254740993);
}

// ---- Three operands.

TEST(Conformance, Ternary) {
  const Array a = numbers({5, 13}), b = numbers({13}, -2, 2, DType::f32, 0.2),
              c = numbers({5, 1}, 0.5, 2, DType::f32, 0.7);
  const auto check = [&](const Function& f, double (*reference)(double, double, double)) {
    const Array expected = made({5, 13}, DType::f32, [&](const Index& i) {
      return reference(at(a, i), at(b, i), at(c, i));
    });
    expect_result({a, b, c}, f, expected, close_in(DType::f32));
    if (!thorough()) return;
    expect_gradients({numbers({3, 4}), numbers({4}, -2, 2, widest(), 0.2),
                      numbers({3, 1}, 0.5, 2, widest(), 0.7)},
                     f);
  };
  check([](const auto& in) { return mulacc(in[0], in[1], in[2]); },
        [](double x, double y, double z) { return x * y + z; });
  check([](const auto& in) { return in[0].lerp(in[1], in[2]); },
        [](double x, double y, double z) { return x + z * (y - x); });
  check([](const auto& in) { return in[0].addcmul(in[1], in[2], -0.5); },
        [](double x, double y, double z) { return x - 0.5 * y * z; });
  check([](const auto& in) { return in[0].addcdiv(in[1], in[2], 0.5); },
        [](double x, double y, double z) { return x + 0.5 * y / z; });
  const Array whole({3}, {1, 2, -3}, DType::i64);
  expect_result({whole}, [](const auto& in) { return mulacc(in[0], in[0], 2); },
                Array({3}, {3, 6, 11}, DType::i64), {});
  expect_result({whole}, [](const auto& in) { return addcmul(in[0], in[0], in[0], 3); },
                Array({3}, {4, 14, 24}, DType::i64), {});
  // At both ends of the interpolation nothing is lost.
  const Array start({2}, {1e8, -3}), end({2}, {-1, 7});
  expect_result({start, end}, [](const auto& in) { return lerp(in[0], in[1], 1.0); }, end, {});
  expect_result({start, end}, [](const auto& in) { return lerp(in[0], in[1], 0.0); }, start, {});
}

// ---- where

TEST(Conformance, Where) {
  const Array c = integers({5, 13}, 0, 1, DType::boolean), a = numbers({5, 13}),
              b = numbers({5, 13}, 5, 6);
  const auto pick = [](const Array& flags, const Array& x, const Array& y) {
    return made(joined(flags.shape, joined(x.shape, y.shape)), x.dtype,
                [&](const Index& i) { return at(flags, i) != 0 ? at(x, i) : at(y, i); });
  };
  const Function f = [](const auto& in) { return where(in[0], in[1], in[2]); };
  expect_result({c, a, b}, f, pick(c, a, b), {});
  const Array row = numbers({13}), column = numbers({5, 1}, 5, 6);
  expect_result({c, row, column}, f, pick(c, row, column), {});
  const Array number({}, {2.5});
  expect_result({c, a}, [](const auto& in) { return where(in[0], in[1], 2.5); }, pick(c, a, number),
                {});
  expect_result({c, a}, [](const auto& in) { return where(in[0], 2.5, in[1]); }, pick(c, number, a),
                {});
  // Values that are not selected have no effect, not even NaN.
  const Array nans({3}, {kNan, kInf, kNan}), zeros3({3}, {0, 0, 0}),
      never({3}, {0, 0, 0}, DType::boolean);
  expect_result({never, nans, zeros3}, f, zeros3, {});
  expect_result({integers({0}, 0, 1, DType::boolean), numbers({0}), numbers({0})}, f, numbers({0}),
                {});
  const Array i = integers({5, 13}, -5, 5, DType::i64);
  expect_result({c, i, i}, f, i, {});
  Array ones_or_zeros = c.as(DType::i64);
  expect_result({c}, [](const auto& in) { return where(in[0], 1, 0); }, ones_or_zeros, {});
}

TEST(Conformance, WhereGradient) {
  const Tensor c = upload(integers({3, 4}, 0, 1, DType::boolean));
  expect_gradients({numbers({3, 4}), numbers({3, 4})},
                   [&](const auto& in) { return where(c, in[0] * in[1], in[1]); });
  expect_gradients({numbers({4}), numbers({3, 1})},
                   [&](const auto& in) { return where(c, in[0], in[1]); });
}

// ---- Ties and corner cases of gradients.

TEST(Conformance, MaximumSplitsTies) {
  for (const bool larger : {true, false}) {
    Tensor a = upload(Array({4}, {1, 2, 5, kNan}), true),
           b = upload(Array({4}, {1, 3, 4, 0}), true);
    (larger ? maximum(a, b) : minimum(a, b)).backward(upload(Array({4}, {1, 2, 4, 8})));
    EXPECT_EQ(download(a.grad()).values,
              (larger ? std::vector<double>{0.5, 0, 4, 8} : std::vector<double>{0.5, 2, 0, 8}));
    EXPECT_EQ(download(b.grad()).values,
              (larger ? std::vector<double>{0.5, 2, 0, 8} : std::vector<double>{0.5, 0, 4, 8}));
  }
}

TEST(Conformance, PowGradientAtZero) {
  Tensor a = upload(Array({4}, {0, 0, 2, -2}), true), b = upload(Array({4}, {0, 2, 0, 3}), true);
  pow(a, b).sum().backward();
  EXPECT_EQ(download(a.grad()).values, (std::vector<double>{0, 0, 0, 12}));
  const auto gb = download(b.grad()).values;
  EXPECT_EQ(gb[0], 0);
  EXPECT_EQ(gb[1], 0);
  EXPECT_NEAR(gb[2], std::log(2.0), 1e-6);
  EXPECT_TRUE(std::isnan(gb[3]));
  Tensor x = upload(Array({3}, {-2, 0, 3}), true);
  pow(x, 2).sum().backward();
  EXPECT_EQ(download(x.grad()).values, (std::vector<double>{-4, 0, 6}));
}

TEST(Conformance, GradientsAddWhereAValueIsUsedTwice) {
  expect_gradients({numbers({5})},
                   [](const auto& in) { return in[0] * in[0] + in[0] / (in[0] * in[0] + 1); });
}

// ---- In place.

TEST(Conformance, InPlace) {
  const Array a = numbers({3, 4}), b = numbers({4}, 1, 2);
  const auto check = [&](void (*act)(Tensor&, const Tensor&), double (*reference)(double, double)) {
    Tensor x = upload(a);
    act(x, upload(b));
    expect_close(download(x), combined(a, b, reference), exact_in(DType::f32));
  };
  check([](Tensor& x, const Tensor& y) { x += y; }, [](double x, double y) { return x + y; });
  check([](Tensor& x, const Tensor& y) { x -= y; }, [](double x, double y) { return x - y; });
  check([](Tensor& x, const Tensor& y) { x *= y; }, [](double x, double y) { return x * y; });
  check([](Tensor& x, const Tensor& y) { x /= y; }, [](double x, double y) { return x / y; });
  Tensor x = upload(a);
  x.fill_(3.5);
  EXPECT_EQ(download(x).values, std::vector<double>(12, 3.5));
  x.copy_(upload(a.as(DType::i32)));
  EXPECT_EQ(download(x).values, a.as(DType::i32).values);
  EXPECT_EQ(x.dtype(), DType::f32);
  x.zero_();
  EXPECT_EQ(download(x).values, std::vector<double>(12, 0));
  Tensor y = upload(numbers({2, 2}));
  assign(y, upload(Array({2, 2}, {1, 2, 3, 4})));
  EXPECT_EQ(download(y).values, (std::vector<double>{1, 2, 3, 4}));
}

TEST(Conformance, InPlaceKeepsTheHistory) {
  Tensor x = upload(Array({2}, {2, 3}), true);
  Tensor y = x * 2;
  y *= x;
  y += 1;
  y.sum().backward();
  EXPECT_EQ(download(x.grad()).values, (std::vector<double>{8, 12}));
}

}  // namespace
}  // namespace volta::conformance
