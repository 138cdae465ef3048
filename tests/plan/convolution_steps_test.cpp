// Convolutions as steps of plans: the library's against our own lowering, split into parts, and the
// memory layout of images.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

bool has_library() {
  const Tensor x = ones({1, 1, 2, 2}, {.device = test_device()}),
               w = ones({1, 1, 1, 1}, {.device = test_device()});
  const Explanation plan = explain(conv2d(x, w));
  return std::any_of(plan.steps.begin(), plan.steps.end(),
                     [](const StepInfo& step) { return step.kind == "convolution"; });
}

Tensor noise(const Shape& shape, std::uint64_t seed, DType dtype) {
  manual_seed(seed);
  return randn(shape, {.dtype = dtype, .device = test_device()}).eval();
}

struct Case {
  std::int64_t n, c, h, w, o, kernel;
  Conv2dOptions options;
};

// The convolution of f32 or f64 operands, and the gradients of a weighted sum of its elements.
std::vector<Tensor> convolved(const Case& test, DType dtype) {
  const Shape weights{test.o, test.c / test.options.groups, test.kernel, test.kernel};
  Tensor x = noise({test.n, test.c, test.h, test.w}, 1, DType::f32).to(dtype).eval(),
         w = noise(weights, 2, DType::f32).to(dtype).eval();
  x.set_requires_grad(true);
  w.set_requires_grad(true);
  const Tensor y = conv2d(x, w, {}, test.options);
  (y * noise(y.shape(), 3, DType::f32).to(dtype)).sum().backward();
  return {y.detach().to(DType::f64), x.grad().to(DType::f64), w.grad().to(DType::f64)};
}

void expect_alike(const Case& test, double tolerance) {
  const std::vector<Tensor> ours = convolved(test, DType::f64),
                            library = convolved(test, DType::f32);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double largest = ours[i].abs().max().item<double>(),
                 off = (ours[i] - library[i]).abs().max().item<double>();
    EXPECT_LE(off, tolerance * largest) << "result " << i << " of " << test.n << " x " << test.c
                                        << " x " << test.h << " x " << test.w;
  }
}

// f64 has no library, so it is computed by the lowering to windows and products.
TEST(ConvSteps, TheLibraryGivesWhatTheLoweringGives) {
  if (!has_library()) GTEST_SKIP() << "no library for convolutions";
  const Case cases[] = {
      // One image split into rows: with and without padding, strides, rows that are not read.
      {1, 16, 57, 40, 32, 3, {.padding = 1}},
      {1, 16, 56, 40, 32, 3, {.stride = 2, .padding = 1}},
      {1, 8, 61, 64, 48, 5, {.stride = 3}},
      {1, 32, 40, 40, 32, 1, {.stride = 2}},
      {2, 16, 48, 40, 16, 3, {.stride = {1, 2}, .padding = {4, 0}, .dilation = {3, 2}}},
      {1, 32, 64, 64, 16, 2, {.stride = 4}},  // pixels between kernels are not read
      {3, 16, 33, 31, 32, 3, {.padding = 2, .groups = 4}},
      {1, 64, 40, 40, 64, 3, {.padding = 1, .groups = 64}},
      // Parts of the images, the last one shorter.
      {37, 8, 20, 20, 16, 3, {.padding = 1}},
      {33, 1, 28, 28, 32, 3, {.padding = 1}},
      {19, 3, 32, 32, 24, 7, {.stride = 2, .padding = 3}},
      // Weights with many elements, so that only few parts have sums of their own.
      {40, 512, 4, 4, 512, 3, {.padding = 1}},
  };
  // cuDNN adds up weight gradients sequentially.
  for (const Case& test : cases) expect_alike(test, test_device().is_cpu() ? 4e-6 : 2e-5);
}

std::vector<std::vector<float>> bits_with(int threads, const Case& test) {
  const int before = num_threads();
  set_num_threads(threads);
  std::vector<std::vector<float>> bits;
  for (const Tensor& result : convolved(test, DType::f32))
    bits.push_back(result.to(DType::f32).to_vector<float>());
  set_num_threads(before);
  return bits;
}

TEST(ConvSteps, BitsDoNotDependOnTheNumberOfThreads) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "threads of the CPU";
  for (const Case& test :
       {Case{1, 16, 57, 40, 32, 3, {.padding = 1}}, Case{37, 8, 20, 20, 16, 3, {.padding = 1}},
        Case{5, 64, 16, 16, 64, 3, {.padding = 1}}}) {
    const auto one = bits_with(1, test);
    EXPECT_EQ(one, bits_with(2, test));
    EXPECT_EQ(one, bits_with(4, test));
  }
}

std::int64_t count(const Explanation& plan, const std::string& kind) {
  return std::count_if(plan.steps.begin(), plan.steps.end(),
                       [&](const StepInfo& step) { return step.kind == kind; });
}

// Between convolutions images are written once, by the kernel that computes them, in the order in
// which the next convolution reads them. Kernels that only copy occur only at the edges.
TEST(ConvSteps, LayoutsChangeAtTheEdgesOnly) {
  if (!has_library()) GTEST_SKIP() << "no library for convolutions";
  const Tensor x = noise({8, 3, 16, 16}, 1, DType::f32), w1 = noise({16, 3, 3, 3}, 2, DType::f32),
               w2 = noise({16, 16, 3, 3}, 3, DType::f32), b = noise({16}, 4, DType::f32);
  const auto network = [&] {
    const Tensor first = relu(conv2d(x, w1, b, {.padding = 1}));
    const Tensor second = relu(conv2d(first, w2, b, {.padding = 1}) + first);
    return conv2d(max_pool2d(second, 2), w2, b, {.padding = 1});
  };
  const Explanation plan = explain(network());
  EXPECT_EQ(count(plan, "convolution"), 3);
  // The transposed input (and weights, if the library needs that); bias and ReLU twice (with the
  // sum, and with the pool), the first unless the convolution includes them; the result transposed
  // back with its bias.
  const bool part_of_it = std::any_of(plan.steps.begin(), plan.steps.end(), [](const StepInfo& s) {
    return s.kind == "convolution" && s.what.ends_with("relu");
  });
  EXPECT_EQ(count(plan, "kernel"), part_of_it ? 3 : 4);
  // x and its copy, the first result read twice, the pooled images, and every result once.
  const std::uint64_t image = 8 * 16 * 16 * 16 * 4, input = 8 * 3 * 16 * 16 * 4;
  std::uint64_t read = 0, written = 0;
  for (const StepInfo& step : plan.steps) {
    if (step.kind != "kernel") continue;
    read += step.bytes_read;
    written += step.bytes_written;
  }
  const std::uint64_t small = 64 * 1024;  // weights and biases
  EXPECT_LE(read, input + 3 * image + image / 4 + small);
  EXPECT_LE(written, input + image + image / 4 + image / 4 + small);
}

TEST(ConvSteps, LinesOfPixelsKeepTheirChannelsLast) {
  if (!has_library()) GTEST_SKIP() << "no library for convolutions";
  const Tensor x = noise({4, 8, 64}, 1, DType::f32), w = noise({8, 8, 3}, 2, DType::f32);
  const Tensor y = conv1d(relu(conv1d(relu(conv1d(x, w)), w)), w);
  const Explanation plan = explain(y);
  EXPECT_EQ(count(plan, "convolution"), 3);
  // The transposed input and result, and two ReLUs in between.
  EXPECT_EQ(count(plan, "kernel"), 4);
}

// Without a library, windows take as much memory as the images times the taps. They are limited to
// 256 MiB at a time for any number of images.
TEST(ConvSteps, WindowsStayWithinTheirBound) {
  if (!test_device().supports(DType::f64)) GTEST_SKIP() << "no f64";
  Tensor x = noise({64, 64, 64, 64}, 1, DType::f64), w = noise({64, 64, 3, 3}, 2, DType::f64);
  x.set_requires_grad(true);
  w.set_requires_grad(true);
  conv2d(x, w, {}, {.padding = 1}).sum().backward();
  const std::uint64_t images = 64 * 64 * 64 * 64 * 8, bound = std::uint64_t{256} << 20;
  ASSERT_GT(9 * images, 4 * bound);
  // Memory for anything but windows: the transposed images, and gradients and results of parts.
  for (const Tensor& gradient : {w.grad(), x.grad()})
    EXPECT_LE(explain(gradient).arena_bytes, bound + 3 * images);
}

// Computing the gradient of a first layer's weights does not compute one for the images.
TEST(ConvSteps, AFirstLayersWeightsNeedNoGradientOfItsInput) {
  if (!has_library()) GTEST_SKIP() << "no library for convolutions";
  const Tensor x = noise({4, 3, 16, 16}, 1, DType::f32);
  Tensor w = noise({8, 3, 3, 3}, 2, DType::f32);
  w.set_requires_grad(true);
  conv2d(x, w).sum().backward();
  EXPECT_EQ(count(explain(w.grad()), "convolution"), 1);
}

// The positions of a pool's largest elements are stored as bytes.
TEST(ConvSteps, PoolsKeepPositionsAsBytes) {
  Tensor x = noise({8, 16, 16, 16}, 1, DType::f32);
  x.set_requires_grad(true);
  max_pool2d(x, 2).sum().backward();
  const Explanation plan = explain(x.grad());
  const std::uint64_t pixels = 8 * 16 * 16 * 16;
  std::uint64_t written = 0;
  for (const StepInfo& step : plan.steps) written += step.bytes_written;
  EXPECT_LE(written, 4 * pixels + pixels / 4 + 1024);
}

}  // namespace
}  // namespace volta
