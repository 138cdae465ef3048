// Conformance of variances, norms and log-sum-exp.
#include "ops/conformance/conformance.h"

namespace volta::conformance {
namespace {

double variance_of(const std::vector<double>& values, double correction) {
  const double n = static_cast<double>(values.size()), mean = total(values) / n;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return squares / std::max(n - correction, 0.0);
}

double norm_of(const std::vector<double>& values, double p) {
  double sum = 0, top = 0, least = kInf;
  for (const double v : values) {
    const double size = std::fabs(v);
    top = std::max(top, size);
    least = std::min(least, size);
    sum += p == 0 ? (v != 0 ? 1 : 0) : std::isinf(p) ? 0 : std::pow(size, p);
  }
  if (std::isinf(p)) return p > 0 ? top : least;
  return p == 0 ? sum : std::pow(sum, 1 / p);
}

double log_sum_exp_of(const std::vector<double>& values) {
  const double top = largest(values);
  if (std::isinf(top)) return top;
  double sum = 0;
  for (const double v : values) sum += std::exp(v - top);
  return top + std::log(sum);
}

const std::vector<std::pair<Shape, std::vector<int>>>& patterns() {
  static const std::vector<std::pair<Shape, std::vector<int>>> all{
      {{7}, {0}},       {{5, 13}, {1}},      {{5, 13}, {0}},         {{70, 300}, {1}},
      {{3, 5, 7}, {1}}, {{3, 5, 7}, {0, 2}}, {{3, 5, 7}, {0, 1, 2}}, {{20'011}, {0}},
  };
  return all;
}

Index wide(const std::vector<int>& axes) { return Index(axes.begin(), axes.end()); }

TEST(Conformance, VarAndStd) {
  for (const auto& [shape, axes] : patterns()) {
    if (!thorough() && shape != Shape{5, 13} && shape != Shape{20'011}) continue;
    const Array x = numbers(shape, -1, 4);
    for (const double correction : {1.0, 0.0}) {
      if (correction == 0 && !thorough()) continue;
      const Array expected =
          folded(x, axes, true, [&](const auto& v) { return variance_of(v, correction); });
      const VarOptions options{.correction = correction, .keepdim = true};
      expect_result(
          {x}, [&](const auto& in) { return in[0].var(wide(axes), options); }, expected,
          close_in(DType::f32));
      expect_result(
          {x}, [&](const auto& in) { return in[0].std(wide(axes), options); },
          mapped(expected, [](double v) { return std::sqrt(v); }), close_in(DType::f32));
    }
  }
  const Array x = numbers({3, 4});
  expect_result(
      {x}, [](const auto& in) { return var(in[0]); },
      folded(x, {0, 1}, false, [](const auto& v) { return variance_of(v, 1); }),
      close_in(DType::f32));
  // The variance of one element, of none, and with a correction larger than their number.
  expect_result({numbers({1})}, [](const auto& in) { return in[0].var(); }, Array({}, {kNan}), {});
  expect_result({numbers({3, 0})}, [](const auto& in) { return in[0].std(1); },
                Array({3}, {kNan, kNan, kNan}), {});
  expect_result({numbers({3})}, [](const auto& in) { return in[0].var({}, {.correction = 5}); },
                Array({}, {kInf}), {});
  expect_result(
      {numbers({4})}, [](const auto& in) { return in[0].var(0, {.correction = 1.5}); },
      folded(numbers({4}), {0}, false, [](const auto& v) { return variance_of(v, 1.5); }),
      close_in(DType::f32));
  // The mean is subtracted first, so values far from zero are no problem.
  const Array far = mapped(numbers({500}, 0, 1, DType::f32),
                           [](double v) { return std::floor(v * 64) / 64 + 4096; });
  expect_result({far}, [](const auto& in) { return in[0].var(); },
                folded(far, {0}, false, [](const auto& v) { return variance_of(v, 1); }),
                {1e-4, 0});
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16}) {
    if (!has(dtype) || (!thorough() && dtype == DType::bf16)) continue;
    const Array narrow = numbers({5, 13}, -300, 300, dtype);  // squares exceed 65504
    expect_result(
        {narrow}, [](const auto& in) { return in[0].std(1); },
        folded(narrow, {1}, false, [](const auto& v) { return std::sqrt(variance_of(v, 1)); }),
        close_in(dtype, 10));
  }
}

TEST(Conformance, Norm) {
  for (const double p : {2.0, 1.0, 0.0, kInf, -kInf, 3.0, 0.5, -1.0}) {
    SCOPED_TRACE(p);
    if (!thorough() && (p == 3 || p == -1)) continue;
    for (const auto& [shape, axes] : patterns()) {
      if (!thorough() && (shape != Shape{5, 13} || axes[0] != 1)) continue;
      Array x = numbers(shape, -2, 2);
      if (p == 0) x.values[1] = 0;
      expect_result(
          {x}, [&](const auto& in) { return in[0].norm(p, wide(axes), true); },
          folded(x, axes, true, [&](const auto& v) { return norm_of(v, p); }),
          close_in(DType::f32, 10));
    }
  }
  expect_result({numbers({3, 0})}, [](const auto& in) { return norm(in[0], 2, 1); },
                Array({3}, {0, 0, 0}), {});
  expect_result({Array({3}, {3, kNan, 4})}, [](const auto& in) { return in[0].norm(); },
                Array({}, {kNan}), {});
  for (const DType dtype : {DType::f64, DType::f16}) {
    if (!has(dtype)) continue;
    const Array x({2}, {300, 400}, dtype);  // the squares of halves overflow
    expect_result({x}, [](const auto& in) { return in[0].norm(); }, Array({}, {500}, dtype), {});
  }
}

TEST(Conformance, LogSumExp) {
  for (const auto& [shape, axes] : patterns()) {
    if (!thorough() && shape.rank() != 2) continue;
    const Array x = numbers(shape, -8, 8);
    expect_result(
        {x}, [&](const auto& in) { return in[0].logsumexp(wide(axes), true); },
        folded(x, axes, true, log_sum_exp_of), close_in(DType::f32));
  }
  const Array rows({5, 3},
                   {0, -kInf, 1, -kInf, -kInf, -kInf, kInf, 0, 1, 1e30, -1e30, 0, kNan, 0, kInf});
  expect_result(
      {rows}, [](const auto& in) { return in[0].logsumexp(1); },
      folded(rows, {1}, false, log_sum_exp_of), close_in(DType::f32));
  const Array large = numbers({4, 5}, 900, 1000);
  expect_result(
      {large}, [](const auto& in) { return logsumexp(in[0], 1); },
      folded(large, {1}, false, log_sum_exp_of), close_in(DType::f32));
  expect_result({numbers({2, 0})}, [](const auto& in) { return in[0].logsumexp(1); },
                Array({2}, {-kInf, -kInf}), {});
  if (has(DType::f16)) {
    const Array half = numbers({5, 13}, -8, 8, DType::f16);
    expect_result(
        {half}, [](const auto& in) { return in[0].logsumexp(1); },
        folded(half, {1}, false, log_sum_exp_of), close_in(DType::f16));
  }
}

// ---- Gradients.

TEST(Conformance, StatisticsGradients) {
  const Array x = numbers({3, 4}, -2, 2), cube = numbers({2, 3, 2});
  expect_gradients({x}, [](const auto& in) { return in[0].var(1); });
  expect_gradients({x}, [](const auto& in) { return in[0].std(0, {.correction = 0}) * 2; });
  expect_gradients({x}, [](const auto& in) { return in[0].logsumexp(1); });
  for (const double p : {2.0, 1.0, 0.0, kInf, -kInf, 3.0, 1.5, 0.5}) {
    if (!thorough() && p != 2 && p != 1.5) continue;
    expect_gradients({x}, [&](const auto& in) { return in[0].norm(p, 1) + 0 * in[0].sum(1); });
  }
  if (!thorough()) return;
  expect_gradients({cube}, [](const auto& in) { return in[0].var({0, 2}, {.keepdim = true}); });
  expect_gradients({cube}, [](const auto& in) { return in[0].std(); });
  expect_gradients({cube}, [](const auto& in) { return in[0].logsumexp({1, 2}, true) * in[0]; });
  expect_gradients({cube}, [](const auto& in) { return in[0].norm(2, {0, 1}); });
}

TEST(Conformance, SecondGradientsOfReductions) {
  const auto check = [](const char* name, const Array& at, const auto& reduce) {
    SCOPED_TRACE(name);
    expect_gradients({at}, [&](const auto& in) {
      const EnableGrad on;
      const Tensor x = in[0].requires_grad() ? in[0] : in[0].detach().set_requires_grad();
      return grad(reduce(x).square().sum(), x, {.create_graph = true});
    });
  };
  const Array x = numbers({2, 4}, 0.5, 2);
  check("var", x, [](const Tensor& t) { return t.var(1); });
  check("norm", x, [](const Tensor& t) { return t.norm(2, 1); });
  check("logsumexp", x, [](const Tensor& t) { return t.logsumexp(1); });
  if (!thorough()) return;
  check("std", x, [](const Tensor& t) { return t.std({0, 1}); });
  check("norm 3", x, [](const Tensor& t) { return t.norm(3, 1); });
  check("norm 1", x, [](const Tensor& t) { return t.norm(1, 0); });
  check("largest", x, [](const Tensor& t) { return t.norm(kInf, 1); });
  check("max", x, [](const Tensor& t) { return t.max(1); });
  check("min", x, [](const Tensor& t) { return t.min(); });
  check("mean", x, [](const Tensor& t) { return t.square().mean({0, 1}); });
  check("softmax", x, [](const Tensor& t) { return t.softmax(0); });
}

// Where a formula divides by a norm or a deviation of 0, the gradient is 0, as in PyTorch.
TEST(Conformance, StatisticsGradientsAtZero) {
  const auto gradient = [](const Array& at, const auto& function) {
    Tensor x = upload(at, true);
    function(x).sum().backward();
    return download(x.grad()).values;
  };
  const std::vector<double> zeros{0, 0, 0, 0};
  const Array nothing({2, 2}, {0, 0, 0, 0}), same({2, 2}, {3, 3, -1, -1});
  for (const double p : {2.0, 1.5, 3.0, 0.5, 0.0})
    EXPECT_EQ(gradient(nothing, [&](const Tensor& x) { return x.norm(p, 1); }), zeros) << p;
  EXPECT_EQ(gradient(same, [](const Tensor& x) { return x.std(1); }), zeros);
  const Array lowest({2, 2}, {-kInf, -kInf, -kInf, -kInf});
  EXPECT_EQ(gradient(lowest, [](const Tensor& x) { return x.logsumexp(1); }), zeros);
  EXPECT_EQ(gradient(Array({4}, {1, -2, 2, 0}), [](const Tensor& x) { return x.norm(kInf); }),
            (std::vector<double>{0, -0.5, 0.5, 0}));
}

}  // namespace
}  // namespace volta::conformance
