// More elements than 32 bits can count, and nearly no free memory. The tests run if
// VOLTA_TEST_LARGE is 1, because they need 20 GB of device memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "platform/env.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 31;

class LargeShapes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (platform::environment("VOLTA_TEST_LARGE") != "1")
      GTEST_SKIP() << "VOLTA_TEST_LARGE is not 1";
  }
  // Small integers that differ from position to position and are exact in bf16.
  static Tensor pattern(const Shape& shape) {
    const Tensor number = arange(shape.numel(), {.dtype = DType::i64, .device = test_device()});
    return ((number * 7 + (number / 4099)) % 13 - 6).to(DType::bf16).reshape(shape).eval();
  }
  static void expect_equal(const Tensor& a, const Tensor& b) {
    EXPECT_EQ((a.to(DType::f32) - b.to(DType::f32)).abs().max().item<double>(), 0);
  }
};

TEST_F(LargeShapes, ElementsAndRows) {
  const std::int64_t columns = 4096, rows = kMany / columns + 8;
  const Tensor x = pattern({rows, columns});
  const Tensor sums = x.to(DType::f32).sum(1), shifted = x + 1;
  for (const std::int64_t row : {std::int64_t{0}, rows / 2, rows - 1}) {
    const Tensor line = x.narrow(0, row, 1).clone().eval();
    expect_equal(sums.narrow(0, row, 1), line.to(DType::f32).sum(1));
    expect_equal(shifted.narrow(0, row, 1), line + 1);
  }
}

// The last rows of a result depend on rows of the input that only 64-bit indices reach.
TEST_F(LargeShapes, ConvolutionAndPooling) {
  const std::int64_t width = 16384, height = kMany / width + 64, channels = 1;
  const Tensor x = pattern({1, channels, height, width});
  Tensor w = pattern({1, channels, 3, 3});
  const Tensor y = conv2d(x, w, {}, {.padding = 1}), pooled = max_pool2d(x, {2, 2});
  const Tensor end = x.narrow(2, height - 64, 64).clone().eval();
  expect_equal(y.narrow(2, height - 32, 32), conv2d(end, w, {}, {.padding = 1}).narrow(2, 32, 32));
  expect_equal(pooled.narrow(2, height / 2 - 16, 16), max_pool2d(end, {2, 2}).narrow(2, 16, 16));
}

TEST_F(LargeShapes, WeightGradient) {
  const std::int64_t size = 1024, images = kMany / (size * size) + 2;
  const Tensor x = pattern({images, 1, size, size});
  Tensor w = zeros({1, 1, 3, 3}, {.dtype = DType::bf16, .device = test_device()}).clone().eval();
  w.set_requires_grad(true);
  // A gradient that is 0 except at the end of the last image, so that only its part of the sum
  // remains.
  Tensor g = zeros({images, 1, size, size}, {.dtype = DType::bf16, .device = test_device()});
  g = where(arange(g.numel(), {.dtype = DType::i64, .device = test_device()}).reshape(g.shape()) >=
                g.numel() - size,
            1.0, g);
  conv2d(x, w, {}, {.padding = 1}).backward(g);
  const Tensor last = x.narrow(0, images - 1, 1).clone().to(DType::f32).eval();
  Tensor small = w.detach().to(DType::f32).clone();
  small.set_requires_grad(true);
  conv2d(last, small, {}, {.padding = 1}).backward(g.narrow(0, images - 1, 1).to(DType::f32));
  EXPECT_LE((w.grad().to(DType::f32) - small.grad()).abs().max().item<double>(),
            small.grad().abs().max().item<double>() / 100);
}

TEST_F(LargeShapes, BatchNorm) {
  const std::int64_t images = kMany / (64 * 256 * 256) + 2;
  const Tensor x = pattern({images, 64, 256, 256});
  const Tensor y = batch_norm(x, {}, {}, {}, {}, {.training = true});
  const Tensor mean = x.to(DType::f32).mean({0, 2, 3}, true),
               variance = (x.to(DType::f32) - mean).square().mean({0, 2, 3}, true);
  const Tensor last = x.narrow(0, images - 1, 1).to(DType::f32);
  const Tensor expected = (last - mean) * (variance + 1e-5).rsqrt();
  EXPECT_LE((y.narrow(0, images - 1, 1).to(DType::f32) - expected).abs().max().item<double>(),
            0.02);
}

TEST_F(LargeShapes, AttentionAndProducts) {
  const std::int64_t length = 1024, size = 64, batch = kMany / (16 * length * size) + 1;
  const Tensor q = (pattern({batch, 16, length, size}) / 8).eval();
  const Tensor y = scaled_dot_product_attention(q, q, q, {.causal = true});
  const Tensor last = q.narrow(0, batch - 1, 1).clone().to(DType::f32).eval();
  const Tensor expected = scaled_dot_product_attention(last, last, last, {.causal = true});
  EXPECT_LE((y.narrow(0, batch - 1, 1).to(DType::f32) - expected).abs().max().item<double>(), 0.02);

  const std::int64_t depth = 4096, rows = kMany / depth + 8;
  const Tensor a = pattern({rows, depth}), b = pattern({depth, 8});
  const Tensor c = matmul(a, b);
  expect_equal(c.narrow(0, rows - 4, 4), matmul(a.narrow(0, rows - 4, 4).clone(), b));
}

// Candidates without memory for a trial are skipped: none is timed, none remembered.
TEST_F(LargeShapes, LibrariesPlanWithLittleMemoryLeft) {
  if (test_device().type() != DeviceType::cuda) GTEST_SKIP() << "cuDNN's candidates";
  // Sizes that very probably nobody has timed before.
  std::random_device chance;
  const std::int64_t images = 130 + chance() % 60, size = 40 + chance() % 20;
  const Tensor x = pattern({images, 64, size, size}), w = (pattern({64, 64, 3, 3}) / 8).eval();
  // Loads the library itself.
  static_cast<void>(conv2d(pattern({2, 8, 8, 8}), pattern({8, 8, 3, 3})).eval());
  // The pool has memory for the results, while the device has none for candidates except a little,
  // into which the driver loads kernels.
  std::vector<Tensor> kept, hogs;
  const auto block = [](std::int64_t bytes) {
    return zeros({bytes}, {.dtype = DType::u8, .device = test_device()}).clone().eval();
  };
  for (int i = 0; i < 4; ++i) kept.push_back(block(x.numel() * 2));
  for (std::int64_t bytes = std::int64_t{1} << 37; bytes >= std::int64_t{1} << 24;) {
    try {
      hogs.push_back(block(bytes));
    } catch (const OutOfMemory&) {
      bytes /= 2;
    }
  }
  kept.clear();
  const std::uint64_t timings = counters().timings;
  const Tensor short_of_memory = conv2d(x, w, {}, {.padding = 1}).eval();
  EXPECT_EQ(counters().timings, timings);
  hogs.clear();
  const Tensor wide = conv2d(x.to(DType::f32), w.to(DType::f32), {}, {.padding = 1});
  const Tensor off = (short_of_memory.to(DType::f32) - wide).abs().max();
  EXPECT_LE(off.item<double>(), wide.abs().max().item<double>() / 100);
}

}  // namespace
}  // namespace volta
