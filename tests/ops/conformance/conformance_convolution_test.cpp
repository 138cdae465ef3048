// Conformance of convolutions, pooling and resizing: plain loops in double precision, gradients of
// first and second order against finite differences, and the cost of pooling.
#include <array>

#include "ops/conformance/conformance.h"

namespace volta::conformance {
namespace {

// ---- References.

// A pixel of [n, c, h, w]; `outside` beyond its borders.
double pixel(const Array& x, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
             double outside) {
  if (h < 0 || w < 0 || h >= x.shape[2] || w >= x.shape[3]) return outside;
  return at(x, Index{n, c, h, w});
}

struct Steps {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

Array convolved(const Array& x, const Array& w, const Steps& s) {
  const auto count = [&](int axis) {
    return (x.shape[axis] + 2 * s.padding - s.dilation * (w.shape[axis] - 1) - 1) / s.stride + 1;
  };
  const std::int64_t in = w.shape[1], out = w.shape[0] / s.groups;
  return made({x.shape[0], w.shape[0], count(2), count(3)}, x.dtype, [&](const Index& i) {
    double sum = 0;
    for (std::int64_t c = 0; c < in; ++c) {
      for (std::int64_t a = 0; a < w.shape[2]; ++a) {
        for (std::int64_t b = 0; b < w.shape[3]; ++b) {
          sum += at(w, Index{i[1], c, a, b}) *
                 pixel(x, i[0], i[1] / out * in + c, i[2] * s.stride - s.padding + a * s.dilation,
                       i[3] * s.stride - s.padding + b * s.dilation, 0);
        }
      }
    }
    return sum;
  });
}

// Every pixel of x adds the kernel, multiplied by the pixel, to the result.
Array transposed(const Array& x, const Array& w, const Steps& s) {
  const auto length = [&](int axis) {
    return (x.shape[axis] - 1) * s.stride - 2 * s.padding + s.dilation * (w.shape[axis] - 1) + 1;
  };
  const std::int64_t out = w.shape[1], in = w.shape[0] / s.groups;
  return made({x.shape[0], out * s.groups, length(2), length(3)}, x.dtype, [&](const Index& i) {
    double sum = 0;
    for (std::int64_t c = 0; c < in; ++c) {
      const std::int64_t from = i[1] / out * in + c;
      for (std::int64_t h = 0; h < x.shape[2]; ++h) {
        for (std::int64_t v = 0; v < x.shape[3]; ++v) {
          const std::int64_t a = i[2] + s.padding - h * s.stride,
                             b = i[3] + s.padding - v * s.stride;
          if (a < 0 || b < 0 || a % s.dilation != 0 || b % s.dilation != 0) continue;
          if (a / s.dilation >= w.shape[2] || b / s.dilation >= w.shape[3]) continue;
          sum += at(x, Index{i[0], from, h, v}) *
                 at(w, Index{from, i[1] % out, a / s.dilation, b / s.dilation});
        }
      }
    }
    return sum;
  });
}

// Calls fold(elements of a window) for windows without ceil_mode.
template <class Fold>
Array pooled(const Array& x, std::int64_t kernel, const Steps& s, double outside, Fold fold) {
  const auto count = [&](int axis) {
    return (x.shape[axis] + 2 * s.padding - s.dilation * (kernel - 1) - 1) / s.stride + 1;
  };
  return made({x.shape[0], x.shape[1], count(2), count(3)}, x.dtype, [&](const Index& i) {
    std::vector<double> seen;
    for (std::int64_t a = 0; a < kernel; ++a) {
      for (std::int64_t b = 0; b < kernel; ++b) {
        seen.push_back(pixel(x, i[0], i[1], i[2] * s.stride - s.padding + a * s.dilation,
                             i[3] * s.stride - s.padding + b * s.dilation, outside));
      }
    }
    return fold(seen);
  });
}
double mean_of(const std::vector<double>& values) {
  return total(values) / static_cast<double>(values.size());
}

Array adapted(const Array& x, std::int64_t height, std::int64_t width) {
  const auto range = [](std::int64_t i, std::int64_t from, std::int64_t to) {
    return std::pair(i * from / to, ((i + 1) * from + to - 1) / to);
  };
  return made({x.shape[0], x.shape[1], height, width}, x.dtype, [&](const Index& i) {
    const auto [h0, h1] = range(i[2], x.shape[2], height);
    const auto [w0, w1] = range(i[3], x.shape[3], width);
    std::vector<double> seen;
    for (std::int64_t h = h0; h < h1; ++h)
      for (std::int64_t w = w0; w < w1; ++w) seen.push_back(pixel(x, i[0], i[1], h, w, 0));
    return mean_of(seen);
  });
}

Array interpolated(const Array& x, std::int64_t height, std::int64_t width, bool bilinear,
                   bool aligned) {
  const auto place = [&](std::int64_t i, std::int64_t from, std::int64_t to) {
    const double at = static_cast<double>(i), f = static_cast<double>(from),
                 t = static_cast<double>(to);
    if (!bilinear) return std::floor(at * f / t);
    if (aligned) return to == 1 ? 0 : at * (f - 1) / (t - 1);
    return std::clamp((at + 0.5) * f / t - 0.5, 0.0, f - 1);
  };
  return made({x.shape[0], x.shape[1], height, width}, x.dtype, [&](const Index& i) {
    const double h = place(i[2], x.shape[2], height), w = place(i[3], x.shape[3], width);
    double sum = 0;
    for (std::int64_t a = 0; a < x.shape[2]; ++a) {
      for (std::int64_t b = 0; b < x.shape[3]; ++b) {
        const double near_h = 1 - std::fabs(h - static_cast<double>(a)),
                     near_w = 1 - std::fabs(w - static_cast<double>(b));
        if (near_h > 0 && near_w > 0) sum += near_h * near_w * at(x, Index{i[0], i[1], a, b});
      }
    }
    return sum;
  });
}

std::vector<DType> floats() {
  if (!thorough()) return {DType::f32};
  std::vector<DType> all{DType::f32, DType::f16, DType::bf16};
  if (has(DType::f64)) all.push_back(DType::f64);
  return all;
}

// ---- Convolutions.

const std::vector<Steps>& steps() {
  static const std::vector<Steps> all{{1, 0, 1, 1}, {2, 1, 1, 1}, {1, 2, 2, 1},
                                      {1, 1, 1, 2}, {3, 2, 1, 2}, {2, 1, 2, 4}};
  return all;
}
Conv2dOptions options_of(const Steps& s) {
  return {.stride = s.stride, .padding = s.padding, .dilation = s.dilation, .groups = s.groups};
}
ConvTranspose2dOptions transposed_options_of(const Steps& s) {
  return {.stride = s.stride, .padding = s.padding, .groups = s.groups, .dilation = s.dilation};
}

TEST(ConformanceConvolution, Conv2d) {
  for (const Steps& s : steps()) {
    SCOPED_TRACE(s.stride * 1000 + s.padding * 100 + s.dilation * 10 + s.groups);
    for (const DType dtype : floats()) {
      const Array x = numbers({2, 4, 7, 6}, -1, 1, dtype),
                  w = numbers({8, 4 / s.groups, 3, 3}, -1, 1, dtype, 0.7);
      expect_result(
          {x, w}, [&](const auto& in) { return conv2d(in[0], in[1], {}, options_of(s)); },
          convolved(x, w, s), close_in(dtype, 6));
    }
    expect_gradients({numbers({1, 4, 5, 6}), numbers({4, 4 / s.groups, 2, 3}), numbers({4})},
                     [&](const auto& in) { return conv2d(in[0], in[1], in[2], options_of(s)); });
    if (!thorough()) break;
  }
}

TEST(ConformanceConvolution, ConvTranspose2d) {
  for (const Steps& s : steps()) {
    SCOPED_TRACE(s.stride * 1000 + s.padding * 100 + s.dilation * 10 + s.groups);
    for (const DType dtype : floats()) {
      const Array x = numbers({2, 4, 5, 4}, -1, 1, dtype),
                  w = numbers({4, 8 / s.groups, 3, 3}, -1, 1, dtype, 0.7);
      expect_result(
          {x, w},
          [&](const auto& in) {
            return conv_transpose2d(in[0], in[1], {}, transposed_options_of(s));
          },
          transposed(x, w, s), close_in(dtype, 6));
    }
    expect_gradients({numbers({1, 4, 4, 5}), numbers({4, 4 / s.groups, 2, 3}), numbers({4})},
                     [&](const auto& in) {
                       return conv_transpose2d(in[0], in[1], in[2], transposed_options_of(s));
                     });
    if (!thorough()) break;
  }
}

TEST(ConformanceConvolution, OfOneAxis) {
  const Array x = numbers({2, 3, 9}), w = numbers({4, 3, 3}, -1, 1, DType::f32, 0.7);
  const auto high = [](Array a) {
    a.shape = a.shape.inserted(2, 1);
    return a;
  };
  Array expected = convolved(high(x), high(w), {});
  expected.shape = expected.shape.removed(2);
  expect_result(
      {x, w}, [](const auto& in) { return conv1d(in[0], in[1]); }, expected,
      close_in(DType::f32, 6));
  expect_gradients({numbers({2, 2, 7}), numbers({3, 2, 3}), numbers({3})}, [](const auto& in) {
    return conv1d(in[0], in[1], in[2], {.stride = 2, .padding = 1});
  });
  expect_gradients({numbers({2, 2, 4}), numbers({2, 3, 3}), numbers({3})}, [](const auto& in) {
    return conv_transpose1d(in[0], in[1], in[2], {.stride = 2, .padding = 1, .output_padding = 1});
  });
}

// The gradients of an operation's inputs, concatenated, as a function of the inputs and of the
// gradient of the result, which comes last.
Function slopes_of(const Function& function) {
  return [function](const std::vector<Tensor>& in) {
    const EnableGrad recording;
    std::vector<Tensor> leaves(in.begin(), in.end() - 1);
    for (Tensor& leaf : leaves) {
      if (!leaf.requires_grad()) leaf = leaf.detach().set_requires_grad();
    }
    const std::vector<Tensor> slopes =
        grad({function(leaves)}, leaves, {.grad_outputs = {in.back()}, .create_graph = true});
    std::vector<Tensor> flat;
    for (const Tensor& slope : slopes) flat.push_back(slope.flatten());
    return concat(flat, 0);
  };
}
void expect_second_gradients(std::vector<Array> inputs, const Function& function) {
  std::vector<Tensor> tensors;
  for (Array& input : inputs) tensors.push_back(upload(input.as(widest())));
  tensors.push_back(upload(numbers(function(tensors).shape(), -1, 1, widest(), 0.2)));
  const CheckOptions options = widest() == DType::f64 ? CheckOptions{.eps = 1e-6, .tol = 1e-7}
                                                      : CheckOptions{.eps = 1e-2, .tol = 4e-3};
  const CheckReport report = check_gradients(slopes_of(function), tensors, options);
  EXPECT_TRUE(report.passed) << report.message;
}

TEST(ConformanceConvolution, SecondDerivatives) {
  expect_second_gradients(
      {numbers({2, 2, 5, 4}), numbers({3, 2, 3, 2}), numbers({3})},
      [](const auto& in) { return conv2d(in[0], in[1], in[2], {.stride = 2, .padding = 1}); });
  if (!thorough()) return;
  expect_second_gradients({numbers({1, 4, 4, 4}), numbers({4, 2, 3, 3})}, [](const auto& in) {
    return conv2d(in[0], in[1], {}, {.padding = 1, .dilation = 2, .groups = 2});
  });
  expect_second_gradients(
      {numbers({1, 2, 3, 4}), numbers({2, 3, 3, 2}), numbers({3})},
      [](const auto& in) { return conv_transpose2d(in[0], in[1], in[2], {.stride = 2}); });
}

// ---- Pooling.

TEST(ConformancePooling, MaxPool2d) {
  for (const Steps& s : {Steps{2}, Steps{1}, Steps{2, 1}, Steps{3, 1}, Steps{1, 1, 2}}) {
    const std::int64_t kernel = s.padding == 0 ? 2 : 3;
    const MaxPool2dOptions options{
        .stride = s.stride, .padding = s.padding, .dilation = s.dilation};
    for (const DType dtype : floats()) {
      const Array x = numbers({2, 3, 9, 8}, -2, 2, dtype);
      expect_result({x}, [&](const auto& in) { return max_pool2d(in[0], kernel, options); },
                    pooled(x, kernel, s, -kInf, largest), {});
    }
    expect_gradients({numbers({2, 2, 7, 6})},
                     [&](const auto& in) { return max_pool2d(in[0], kernel, options); });
    if (!thorough()) break;
  }
}

TEST(ConformancePooling, AvgPool2d) {
  for (const Steps& s : {Steps{2}, Steps{1}, Steps{2, 1}, Steps{3, 1}}) {
    const std::int64_t kernel = s.padding == 0 ? 2 : 3;
    const AvgPool2dOptions options{.stride = s.stride, .padding = s.padding};
    for (const DType dtype : floats()) {
      const Array x = numbers({2, 3, 9, 8}, -2, 2, dtype);
      expect_result(
          {x}, [&](const auto& in) { return avg_pool2d(in[0], kernel, options); },
          pooled(x, kernel, s, 0, mean_of), close_in(dtype));
    }
    expect_gradients({numbers({2, 2, 7, 6})},
                     [&](const auto& in) { return avg_pool2d(in[0], kernel, options); });
    if (!thorough()) break;
  }
  expect_gradients({numbers({2, 2, 7, 6})}, [](const auto& in) {
    return avg_pool2d(in[0], 3,
                      {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
  });
}

TEST(ConformancePooling, AdaptiveAvgPool2d) {
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{4, 3}, {3, 4}, {9, 8}, {11, 5}, {1, 1}};
  for (const auto& [height, width] : sizes) {
    for (const DType dtype : floats()) {
      const Array x = numbers({2, 3, 9, 8}, -2, 2, dtype);
      expect_result(
          {x}, [&](const auto& in) { return adaptive_avg_pool2d(in[0], {height, width}); },
          adapted(x, height, width), close_in(dtype));
    }
    expect_gradients({numbers({1, 2, 9, 8})},
                     [&](const auto& in) { return adaptive_avg_pool2d(in[0], {height, width}); });
    if (!thorough()) break;
  }
}

TEST(ConformancePooling, OfOneAxis) {
  expect_gradients({numbers({2, 2, 9})},
                   [](const auto& in) { return max_pool1d(in[0], 3, {.stride = 2}); });
  if (!thorough()) return;
  expect_gradients({numbers({2, 2, 9})}, [](const auto& in) { return avg_pool1d(in[0], 2); });
  expect_gradients({numbers({2, 9})}, [](const auto& in) { return adaptive_avg_pool1d(in[0], 4); });
}

TEST(ConformancePooling, Interpolate) {
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{7, 11}, {10, 8}, {3, 2}, {1, 13}};
  for (const auto& [height, width] : sizes) {
    for (const int way : {0, 1, 2}) {
      SCOPED_TRACE(std::to_string(height) + " " + std::to_string(way));
      const InterpolateOptions options{
          .size = {height, width},
          .mode = way == 0 ? InterpolateMode::nearest : InterpolateMode::bilinear,
          .align_corners = way == 2};
      for (const DType dtype : floats()) {
        const Array x = numbers({2, 3, 5, 4}, -2, 2, dtype);
        expect_result(
            {x}, [&](const auto& in) { return interpolate(in[0], options); },
            interpolated(x, height, width, way != 0, way == 2), close_in(dtype));
      }
      expect_gradients({numbers({1, 2, 5, 4})},
                       [&](const auto& in) { return interpolate(in[0], options); });
    }
    if (!thorough()) break;
  }
}

TEST(ConformancePooling, PixelShuffle) {
  const Array x = numbers({2, 8, 3, 4});
  const Array expected = made({2, 2, 6, 8}, x.dtype, [&](const Index& i) {
    return at(x, Index{i[0], i[1] * 4 + i[2] % 2 * 2 + i[3] % 2, i[2] / 2, i[3] / 2});
  });
  expect_result({x}, [](const auto& in) { return pixel_shuffle(in[0], 2); }, expected, {});
  expect_result({expected}, [](const auto& in) { return pixel_unshuffle(in[0], 2); }, x, {});
  expect_gradients({numbers({4, 2, 3})}, [](const auto& in) { return pixel_shuffle(in[0], 2); });
  expect_gradients({numbers({1, 4, 6})}, [](const auto& in) { return pixel_unshuffle(in[0], 2); });
  EXPECT_EQ(pixel_shuffle(upload(numbers({0, 4, 2, 2})), 2).shape(), (Shape{0, 1, 4, 4}));
  EXPECT_EQ(pixel_unshuffle(upload(numbers({0, 1, 4, 4})), 2).shape(), (Shape{0, 4, 2, 2}));
}

TEST(ConformancePooling, SecondDerivatives) {
  const Array x = numbers({1, 2, 5, 6});
  expect_second_gradients({x}, [](const auto& in) {
    return max_pool2d(in[0].square(), 3, {.stride = 2, .padding = 1});
  });
  if (!thorough()) return;
  expect_second_gradients({x}, [](const auto& in) {
    return avg_pool2d(in[0].square(), 3, {.stride = 2, .padding = 1});
  });
  expect_second_gradients(
      {x}, [](const auto& in) { return adaptive_avg_pool2d(in[0].square(), {3, 4}); });
  expect_second_gradients({x}, [](const auto& in) {
    return interpolate(in[0].square(), {.size = {7, 4}, .mode = InterpolateMode::bilinear});
  });
}

TEST(ConformancePooling, ThirdDerivatives) {
  if (!thorough()) GTEST_SKIP() << "no operation that the others do not run";
  const Function pool = [](const auto& in) {
    return max_pool2d(in[0] * in[0].square(), 3, {.stride = 2, .padding = 1});
  };
  const Array g = numbers({1, 1, 3, 2}, -1, 1, DType::f32, 0.6);
  expect_second_gradients({numbers({1, 1, 5, 4}), g}, slopes_of(pool));
}

// ---- Cost.

struct Cost {
  std::uint64_t forward, backward;
  friend bool operator==(const Cost&, const Cost&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Cost& cost) {
    return out << cost.forward << " and " << cost.backward;
  }
};
// The kernels of the operation and of its gradient.
Cost cost_of(const Shape& shape, const Function& function) {
  const Tensor x = upload(numbers(shape), true);
  const Tensor g = upload(numbers(function({x}).shape()));
  x.eval();
  g.eval();
  Counters before = counters();
  const Tensor y = function({x}).eval();
  const std::uint64_t forward = counters().launches - before.launches;
  before = counters();
  y.backward(g);
  x.grad().eval();
  return {forward, counters().launches - before.launches};
}

TEST(Counts, PoolingIsOneKernelEachWay) {
  const Shape images{2, 4, 12, 12};
  const Cost one{1, 1};
  EXPECT_EQ(cost_of(images, [](const auto& in) { return max_pool2d(in[0], 2); }), one);
  EXPECT_EQ(
      cost_of(images,
              [](const auto& in) { return max_pool2d(in[0], 3, {.stride = 2, .padding = 1}); }),
      one);
  if (!thorough()) return;
  EXPECT_EQ(cost_of(images, [](const auto& in) { return avg_pool2d(in[0], 2); }), one);
  EXPECT_EQ(
      cost_of(images,
              [](const auto& in) { return avg_pool2d(in[0], 3, {.stride = 1, .padding = 1}); }),
      one);
  EXPECT_EQ(cost_of(images, [](const auto& in) { return adaptive_avg_pool2d(in[0], 1); }), one);
  EXPECT_EQ(cost_of(images, [](const auto& in) { return adaptive_avg_pool2d(in[0], 5); }), one);
  EXPECT_EQ(cost_of(images, [](const auto& in) { return interpolate(in[0], {.size = 24}); }), one);
  EXPECT_EQ(cost_of(images,
                    [](const auto& in) {
                      return interpolate(in[0], {.scale = 2, .mode = InterpolateMode::bilinear});
                    }),
            one);
  EXPECT_EQ(cost_of(images, [](const auto& in) { return pixel_shuffle(in[0], 2); }), one);
}

}  // namespace
}  // namespace volta::conformance
