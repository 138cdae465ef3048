// Elementwise functions at arguments where the obvious formula cancels or overflows: values and
// gradients computed by mpmath (50 digits) for arguments that f32 represents exactly.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

struct Point {
  double x, value, gradient;
};
struct Accurate {
  const char* name;
  Tensor (*function)(const Tensor&);
  std::vector<Point> points;
};

const std::vector<Accurate>& accurate_functions() {
  static const std::vector<Accurate> all = {
      {"asinh",
       [](const Tensor& x) { return asinh(x); },
       {{0x1p-60, 8.673617379884035e-19, 1.0},
        {-0x1p-20, -9.536743164061055e-07, 0.9999999999995453},
        {0.125, 0.12467674692144275, 0.9922778767136676},
        {-1.0, -0.881373587019543, 0.7071067811865476},
        {-3.0, -1.8184464592320668, 0.31622776601683794},
        {8192.0, 9.704060531564524, 0.00012207031159050531},
        {67108864.0, 18.714973875118524, 1.4901161193847655e-08},
        {134217728.0, 19.408121055678468, 7.450580596923828e-09},
        {0x1p40, 28.419034402957756, 9.094947017729282e-13},
        {-0x1p100, -70.00786523655448, 7.888609052210118e-31},
        {0x1p700, 485.89617357252166, 1.90109156629516e-211}}},
      {"acosh",
       [](const Tensor& x) { return acosh(x); },
       {{0x1.00001p0, 0.0013810678222475811, 724.077171301595},
        {1.125, 0.4949329230945269, 1.9402850002906638},
        {2.0, 1.3169578969248168, 0.5773502691896257},
        {1024.0, 7.624618747740734, 0.0009765629656616204},
        {67108864.0, 18.714973875118524, 1.490116119384766e-08},
        {134217728.0, 19.408121055678468, 7.450580596923828e-09},
        {0x1p50, 35.35050620855721, 8.881784197001252e-16},
        {0x1p100, 70.00786523655448, 7.888609052210118e-31},
        {0x1p700, 485.89617357252166, 1.90109156629516e-211}}},
      {"atanh",
       [](const Tensor& x) { return atanh(x); },
       {{0x1p-60, 8.673617379884035e-19, 1.0},
        {-0x1p-12, -0.0002441406298506386, 1.0000000596046483},
        {0.5, 0.5493061443340549, 1.3333333333333333},
        {-0.75, -0.9729550745276566, 2.2857142857142856},
        {0x1.ffffep-1, 7.27804515746079, 524288.2500001192},
        {-0x1.ffffep-1, -7.27804515746079, 524288.2500001192}}},
      {"log10",
       [](const Tensor& x) { return log10(x); },
       {{0x1p-100, -30.10299956639812, 5.505336606604651e+29},
        {0.001953125, -2.709269960975831, 222.35877473446493},
        {0.5, -0.3010299956639812, 0.8685889638065036},
        {0x1.00001p0, 4.141752956539506e-07, 0.43429406772815365},
        {1000.0, 3.0, 0.00043429448190325184},
        {0x1.2a05f2p33, 10.0, 4.342944819032518e-11},
        {0x1p100, 30.10299956639812, 3.4259793812668956e-31},
        {0x1p700, 210.72099696478685, 8.256335768347979e-212}}},
      {"erfc",
       [](const Tensor& x) { return erfc(x); },
       {{-4.0, 1.999999984582742, -1.2698234671866558e-07},
        {-0.5, 1.5204998778130465, -0.8787825789354448},
        {0x1p-20, 0.9999989238937692, -1.1283791670944863},
        {0.5, 0.4795001221869535, -0.8787825789354448},
        {1.0, 0.15729920705028513, -0.4151074974205947},
        {2.0, 0.004677734981047266, -0.020666985354092053},
        {3.53125, 5.915928052409365e-07, -4.334326492453697e-06},
        {5.03125, 1.1170045332721621e-12, -1.145385999966884e-11},
        {8.09375, 2.45423351348587e-30, -4.0026669320415496e-29},
        {9.0, 4.13703174651381e-37, -7.492073428245974e-36},
        {20.03125, 1.5420289708383915e-176, -6.1854326141228e-175},
        {26.0, 5.663192408856143e-296, -2.9470349932662697e-294}}},
  };
  return all;
}

// Whether the number is a normal f32 number, or 0.
bool fits_f32(double number) {
  const double size = std::fabs(number);
  return size == 0 ||
         (size >= std::numeric_limits<float>::min() && size <= std::numeric_limits<float>::max());
}

void expect_accurate(DType dtype, double tolerance) {
  for (const Accurate& op : accurate_functions()) {
    std::vector<double> arguments;
    std::vector<Point> points;
    for (const Point& point : op.points) {
      if (dtype != DType::f64 && !fits_f32(point.x)) continue;
      points.push_back(point);
      arguments.push_back(point.x);
    }
    const Tensor x =
        from_vector(arguments, {.dtype = dtype, .device = test_device(), .requires_grad = true});
    const Tensor y = op.function(x);
    y.sum().backward();
    const std::vector<double> values = y.to_vector<double>(), slopes = x.grad().to_vector<double>();
    const auto expect_near = [&](double actual, double expected) {
      if (dtype != DType::f64 && !fits_f32(expected)) return;
      EXPECT_NEAR(actual, expected, tolerance * std::fabs(expected));
    };
    for (std::size_t i = 0; i < points.size(); ++i) {
      SCOPED_TRACE(std::string(op.name) + " of " + std::to_string(points[i].x));
      expect_near(values[i], points[i].value);
      expect_near(slopes[i], points[i].gradient);
    }
  }
}

TEST(Accuracy, WhereFormulasCancelOrOverflow) { expect_accurate(DType::f32, 1e-6); }

TEST(Accuracy, WhereFormulasCancelOrOverflowInDoublePrecision) {
  if (!test_device().supports(DType::f64)) GTEST_SKIP() << "no f64 here";
  expect_accurate(DType::f64, 4e-15);
}

}  // namespace
}  // namespace volta
