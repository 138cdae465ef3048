// Batch norm beyond PyTorch's values: kernels and bytes, statistics of values far from 0, running
// statistics, chunks, second order.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/conformance/conformance.h"
#include "volta/volta.h"

namespace volta {
namespace {

using conformance::numbers;
using conformance::upload;

const BatchNormOptions kTraining{.training = true};

TensorOptions here() { return {.dtype = DType::f32, .device = test_device()}; }

// Images with channels second or last in memory, with the parameters and statistics of the
// channels.
struct Layer {
  Shape shape;
  bool channels_last;
  Tensor x, g, weight, bias, mean, variance;

  explicit Layer(const Shape& sizes, bool last = false, bool requires_grad = true)
      : shape(sizes), channels_last(last) {
    const Shape lying = last ? Shape{shape[0], shape[2], shape[3], shape[1]} : shape;
    const auto by_channel = [&](double low, double high, double start) {
      return upload(numbers({shape[1]}, low, high, DType::f32, start));
    };
    x = upload(numbers(lying, -2, 3, DType::f32, 0.1));
    g = upload(numbers(lying, -2, 3, DType::f32, 0.2));
    weight = by_channel(0.5, 2, 0.3);
    bias = by_channel(-1, 1, 0.4);
    mean = by_channel(-1, 1, 0.5);
    variance = by_channel(0.5, 2, 0.6);
    for (Tensor* leaf : {&x, &weight, &bias}) leaf->set_requires_grad(requires_grad);
  }
  Tensor seen(const Tensor& lying) const {
    return channels_last ? lying.permute({0, 3, 1, 2}) : lying;
  }
  Tensor lying(const Tensor& seen) const {
    return channels_last ? seen.permute({0, 2, 3, 1}) : seen;
  }
  Tensor operator()(BatchNormOptions options = kTraining) const {
    return batch_norm(seen(x), mean, variance, weight, bias, options);
  }
};

struct Work {
  int kernels = 0;
  double read = 0, written = 0;  // in passes over the images
};
Work work_of(const Explanation& plan, const Tensor& images) {
  const auto pass = static_cast<double>(images.numel()) * static_cast<double>(size_of(DType::f32));
  Work work{.kernels = plan.kernels()};
  for (const StepInfo& step : plan.steps) {
    work.read += static_cast<double>(step.bytes_read) / pass;
    work.written += static_cast<double>(step.bytes_written) / pass;
  }
  return work;
}

// ---- Kernels and bytes. Statistics of chunks and of channels are a few hundredths of a pass.

constexpr double kSmall = 0.065;

// A submit drops what earlier tests recorded and nobody holds any more.
class BatchNormPlans : public ::testing::Test {
 protected:
  void SetUp() override { submit(test_device()); }
};
class BatchNormPlan : public BatchNormPlans, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Layouts, BatchNormPlan, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "ChannelsLast" : "ChannelsFirst");
});

// The kernels compute statistics, combine them with the running ones, and compute the values.
TEST_P(BatchNormPlan, TrainingReadsTwiceAndWritesOnce) {
  const Layer layer({16, 64, 32, 32}, GetParam(), false);
  const Tensor y = layer.lying(layer().relu());
  const Explanation plan = explain(y);
  const Work work = work_of(plan, layer.x);
  EXPECT_LE(work.kernels, 3) << plan;
  EXPECT_NEAR(work.read, 2, kSmall) << plan;
  EXPECT_NEAR(work.written, 1, kSmall) << plan;
}

TEST_P(BatchNormPlan, AResidualIsReadOnce) {
  const Layer layer({16, 64, 32, 32}, GetParam(), false);
  const Tensor y = layer.lying((layer() + layer.seen(layer.g)).relu());
  const Explanation plan = explain(y);
  const Work work = work_of(plan, layer.x);
  EXPECT_LE(work.kernels, 3) << plan;
  EXPECT_NEAR(work.read, 3, kSmall) << plan;
  EXPECT_NEAR(work.written, 1, kSmall) << plan;
}

TEST_P(BatchNormPlan, EvaluationIsOneKernel) {
  const Layer layer({16, 64, 32, 32}, GetParam(), false);
  const Tensor y = layer.lying(layer({}).relu());
  const Explanation plan = explain(y);
  const Work work = work_of(plan, layer.x);
  EXPECT_EQ(work.kernels, 1) << plan;
  EXPECT_NEAR(work.read, 1, kSmall) << plan;
  EXPECT_NEAR(work.written, 1, kSmall) << plan;
}

// A training step has two sums of the gradient and x, their combination, and the gradient of x. The
// mask of relu is recomputed from x.
TEST_P(BatchNormPlan, BothWaysReadInputFourTimesAndGradientTwice) {
  const Layer layer({16, 64, 32, 32}, GetParam());
  const Tensor y = layer.lying(layer().relu());
  y.backward(layer.g);
  const Explanation plan = explain(y);
  const Work work = work_of(plan, layer.x);
  EXPECT_LE(work.kernels, 6) << plan;
  EXPECT_LE(work.read, 6 + 2 * kSmall) << plan;
  EXPECT_NEAR(work.written, 2, 2 * kSmall) << plan;
}

// If the result was observed before, the mask of relu is computed from it.
TEST_F(BatchNormPlans, BackwardOfWhatWasObservedReadsTheResult) {
  if (!thorough()) GTEST_SKIP() << "kernels to spare";
  const Layer layer({16, 64, 32, 32});
  const Tensor y = layer().relu();
  y.eval();
  const std::vector<Tensor> gradients =
      grad({y}, {layer.x, layer.weight, layer.bias}, {.grad_outputs = {layer.g}});
  const Explanation plan = explain(gradients);
  const Work work = work_of(plan, layer.x);
  EXPECT_LE(work.kernels, 4) << plan;
  EXPECT_LE(work.read, 6 + 2 * kSmall) << plan;
  EXPECT_LE(work.written, 1.25 + 2 * kSmall) << plan;
}

// Without relu: two sums of the gradient and x, their combination, and the gradient of x.
TEST_F(BatchNormPlans, BackwardReadsGradientAndInputTwice) {
  if (!thorough()) GTEST_SKIP() << "kernels to spare";
  const Layer layer({16, 64, 32, 32});
  const Tensor y = layer();
  y.eval();
  const std::vector<Tensor> gradients =
      grad({y}, {layer.x, layer.weight, layer.bias}, {.grad_outputs = {layer.g}});
  const Explanation plan = explain(gradients);
  const Work work = work_of(plan, layer.x);
  EXPECT_LE(work.kernels, 3) << plan;
  EXPECT_NEAR(work.read, 4, 2 * kSmall) << plan;
  EXPECT_NEAR(work.written, 1, kSmall) << plan;
}

// Few values are not split into chunks.
TEST_F(BatchNormPlans, FewValuesAreOneKernel) {
  const Layer layer({16, 8, 4, 4});
  const Tensor y = layer().relu();
  const Explanation plan = explain(y);
  EXPECT_EQ(plan.kernels(), 1) << plan;
}

// ---- Statistics.

struct Reference {
  std::vector<double> mean, variance;  // for each channel; the variance is biased
};
Reference reference_of(const std::vector<float>& x, const Shape& shape) {
  const std::int64_t n = shape[0], c = shape[1], s = shape.numel() / (n * c);
  Reference result;
  for (std::int64_t k = 0; k < c; ++k) {
    double sum = 0, squares = 0;
    const auto each = [&](auto act) {
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < s; ++j)
          act(static_cast<double>(x[static_cast<std::size_t>((i * c + k) * s + j)]));
      }
    };
    const auto count = static_cast<double>(n * s);
    each([&](double value) { sum += value; });
    each([&](double value) { squares += (value - sum / count) * (value - sum / count); });
    result.mean.push_back(sum / count);
    result.variance.push_back(squares / count);
  }
  return result;
}

// The batch's statistics, which momentum 1 stores as the running ones, with the variance made
// biased.
Reference statistics_of(const Tensor& x) {
  const Tensor mean = zeros({x.size(1)}, here()).clone(), variance = ones({x.size(1)}, here());
  const Tensor spread = variance.clone();
  batch_norm(x, mean, spread, {}, {}, {.training = true, .momentum = 1});
  const auto count = static_cast<double>(x.numel() / x.size(1));
  Reference result{mean.to_vector<double>(), spread.to_vector<double>()};
  for (double& v : result.variance) v *= (count - 1) / count;
  return result;
}

// `spoil` changes values before they are uploaded.
template <class Spoil>
void expect_statistics(const Shape& shape, double centre, double tolerance, Spoil spoil,
                       bool channels_last = false) {
  SCOPED_TRACE(to_string(shape) + " about " + std::to_string(centre));
  std::vector<float> values;
  const conformance::Array noise = numbers(shape, -1.75, 1.75, DType::f32, 0.3);
  for (const double value : noise.values) values.push_back(static_cast<float>(value + centre));
  spoil(values);
  const Reference expected = reference_of(values, shape);
  Tensor x = from_vector(values, shape, here());
  if (channels_last) x = x.permute({0, 2, 3, 1}).clone().eval().permute({0, 3, 1, 2});
  const Reference actual = statistics_of(x);
  for (std::size_t k = 0; k < expected.mean.size(); ++k) {
    EXPECT_NEAR(actual.mean[k], expected.mean[k],
                1.5e-7 * std::fabs(expected.mean[k]) + 5e-6 * std::sqrt(expected.variance[k]));
    EXPECT_NEAR(actual.variance[k] / expected.variance[k], 1, tolerance) << "channel " << k;
  }
}
void nothing(std::vector<float>&) {}

// In f32 the squares are about 1e8 and contain no digit of a variance of 1.
TEST(BatchNormStatistics, AreGoodFarFromZero) {
  expect_statistics({16, 2, 32, 32}, 1e4, 1e-5, nothing);
  if (!thorough()) return;
  for (const double centre : {0.0, 1.0, -300.0, 1e4, -1e5}) {
    expect_statistics({4, 3, 5, 5}, centre, 1e-5, nothing);
    expect_statistics({16, 2, 32, 32}, centre, 1e-5, nothing);
    expect_statistics({16, 2, 32, 32}, centre, 1e-5, nothing, true);
    expect_statistics({20000, 3}, centre, 1e-5, nothing);
    expect_statistics({1, 2, 150, 100}, centre, 1e-5, nothing);
  }
}

// A chunk's reference value is not an outlier, whether its first element is one or, as in images
// with similar borders, one element at each end is.
TEST(BatchNormStatistics, AreGoodWhereFirstElementsLieApart) {
  if (!thorough()) GTEST_SKIP() << "the formula does not depend on devices";
  const auto expect_good = [](const Shape& shape, bool channels_last) {
    const auto plane = static_cast<std::size_t>(shape[2] * shape[3]);
    const auto set = [&](std::size_t place, float value) {
      return [=](std::vector<float>& values) {
        for (std::size_t i = place; i < values.size(); i += plane) values[i] = value;
      };
    };
    expect_statistics(shape, 1e4, 1e-5, set(0, 0), channels_last);
    expect_statistics(shape, 0, 1e-5, set(0, 1e4F), channels_last);
    expect_statistics(shape, 0, 1e-5, set(plane - 1, 1e4F), channels_last);
    expect_statistics(
        shape, 0, 1e-5,
        [&](std::vector<float>& values) {
          set(0, 1e4F)(values);
          set(plane - 1, 1e4F)(values);
        },
        channels_last);
    const auto first = [](std::vector<float>& values) { values[0] = -1e6; };
    expect_statistics(shape, 100, 1e-5, first, channels_last);
  };
  for (const bool channels_last : {false, true}) {
    expect_good({16, 2, 32, 32}, channels_last);   // chunks of images
    expect_good({8, 2, 32, 32}, channels_last);    // a single chunk
    expect_good({1, 2, 150, 100}, channels_last);  // of lines
    expect_good({13, 2, 31, 31}, channels_last);   // lengths that do not divide evenly
  }
}

// Chunks of images, of lines and of single values whose lengths do not divide evenly.
TEST(BatchNormStatistics, OfChunksThatAreShorterAtTheEnd) {
  expect_statistics({10007, 3}, 2, 1e-5, nothing);
  if (!thorough()) return;
  for (const Shape& shape : {Shape{13, 2, 31, 31}, Shape{1, 1, 127, 101}, Shape{3, 5, 8191},
                             Shape{2, 1, 17, 19, 23}, Shape{8193, 1}}) {
    expect_statistics(shape, 2, 1e-5, nothing);
  }
}

// The gradients of channels in chunks against those of the same channels normalised by tensor
// operations, in f64 if the device supports it.
TEST(BatchNormStatistics, GradientsOfChunks) {
  if (!thorough()) GTEST_SKIP() << "too many kernels to compile";
  const DType dtype = conformance::widest();
  const auto expect_gradients = [&](const Shape& shape) {
    SCOPED_TRACE(to_string(shape));
    const auto leaf = [&](const Shape& s, double low, double high, double start) {
      return upload(numbers(s, low, high, dtype, start), true);
    };
    const Shape channels{shape[1]};
    std::vector<Tensor> leaves{leaf(shape, -2, 3, 0.1), leaf(channels, 0.5, 2, 0.2),
                               leaf(channels, -1, 1, 0.3)};
    const Tensor g = upload(numbers(shape, -1, 1, dtype, 0.4));
    const Tensor y = batch_norm(leaves[0], {}, {}, leaves[1], leaves[2], kTraining);
    const std::vector<Tensor> quick =
        grad({y}, leaves, {.grad_outputs = {g}, .retain_graph = true});
    const std::vector<Tensor> slow = grad({y}, leaves, {.grad_outputs = {g}, .create_graph = true});
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const auto a = quick[i].to_vector<double>(), b = slow[i].to_vector<double>();
      double largest = 0;
      for (const double value : b) largest = std::max(largest, std::fabs(value));
      for (std::size_t k = 0; k < a.size(); ++k) {
        ASSERT_NEAR(a[k], b[k], (dtype == DType::f64 ? 1e-11 : 1e-5) * largest)
            << "gradient " << i << " at " << k;
      }
    }
  };
  expect_gradients({10007, 3});
  expect_gradients({13, 2, 31, 31});
  expect_gradients({16, 2, 32, 32});
  expect_gradients({1, 1, 127, 101});
}

// ---- Running statistics.

TEST(BatchNormRunning, ChangeInPlaceWithoutHistory) {
  if (!thorough()) GTEST_SKIP() << "kernels to spare";
  const Layer layer({4, 3, 5, 6});
  const Tensor alias = layer.mean;  // another handle
  const std::vector<float> before = layer.mean.to_vector<float>();
  const Tensor y = layer();
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(layer.mean.requires_grad());
  EXPECT_FALSE(layer.variance.requires_grad());
  const std::vector<float> once = alias.to_vector<float>();
  EXPECT_NE(once, before);
  layer();
  const std::vector<float> twice = alias.to_vector<float>();
  for (std::size_t i = 0; i < before.size(); ++i) {
    // The batch is the same, so the remaining difference shrinks to 0.9 each time.
    EXPECT_NEAR(twice[i] - once[i], 0.9F * (once[i] - before[i]), 1e-6F);
  }
}

TEST(BatchNormRunning, StayWhileEvaluatingAndAreUpdatedUnderNoGrad) {
  const Layer layer({4, 3, 5, 6});
  const std::vector<float> before = layer.variance.to_vector<float>();
  layer({});
  EXPECT_EQ(layer.variance.to_vector<float>(), before);
  const NoGrad no_grad;
  EXPECT_FALSE(layer().requires_grad());
  EXPECT_NE(layer.variance.to_vector<float>(), before);
}

// The gradient of an earlier call uses the statistics of that call.
TEST(BatchNormRunning, LaterChangesDoNotReachEarlierGradients) {
  if (!thorough()) GTEST_SKIP() << "kernels to spare";
  Layer layer({4, 3, 5, 6});
  const auto gradient = [&](bool changes) {
    const Tensor y = layer({});
    if (changes) layer.variance.copy_(layer.variance * 4);
    const Tensor dx = grad({y}, {layer.x}, {.grad_outputs = {layer.g}})[0];
    if (changes) layer.variance.copy_(layer.variance * 0.25);
    return dx.to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

// Half-precision images keep their statistics in f32.
TEST(BatchNormRunning, OfHalvesAreF32) {
  if (!thorough()) GTEST_SKIP() << "kernels to spare";
  const Layer layer({4, 3, 5, 6});
  const Tensor x = layer.x.detach().to(DType::bf16);
  const Tensor y = batch_norm(x, layer.mean, layer.variance, layer.weight, layer.bias, kTraining);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(layer.mean.dtype(), DType::f32);
  const Layer wide({4, 3, 5, 6});
  const Tensor same =
      batch_norm(x.to(DType::f32), wide.mean, wide.variance, wide.weight, wide.bias, kTraining);
  EXPECT_EQ(y.to_vector<float>(), same.to(DType::bf16).to_vector<float>());
  EXPECT_EQ(layer.mean.to_vector<float>(), wide.mean.to_vector<float>());
}

// A training step with batch norm repeats its plan, and its running statistics stay in their
// buffers.
TEST(BatchNormRunning, AStepRepeats) {
  if (!thorough()) GTEST_SKIP() << "kernels to spare";
  const Layer layer({8, 4, 6, 6});
  optim::SGD optimizer({layer.weight, layer.bias}, {.lr = 0.01});
  const auto step = [&] {
    optimizer.zero_grad();
    (layer().relu() * layer.g).sum().backward();
    optimizer.step();
  };
  for (int i = 0; i < 3; ++i) step();
  const Counters before = counters();
  for (int i = 0; i < 10; ++i) step();
  const Counters after = counters();
  EXPECT_EQ(after.plans_built, before.plans_built);
  EXPECT_EQ(after.compilations, before.compilations);
  EXPECT_EQ(after.allocations, before.allocations);
}

// ---- Gradients against finite differences, and gradients of gradients.

TEST(BatchNormGradients, AreThoseOfDifferencesAndOfAnyOrder) {
  if (conformance::widest() != DType::f64) GTEST_SKIP() << "differences want f64";
  if (!thorough()) GTEST_SKIP() << "too many kernels to compile";
  const DType dtype = DType::f64;
  const Shape shape{3, 2, 2, 3}, channels{2};
  const Tensor mean = upload(numbers(channels, -1, 1, dtype, 0.5)),
               variance = upload(numbers(channels, 0.5, 2, dtype, 0.6));
  const std::vector<Tensor> inputs{upload(numbers(shape, -2, 3, dtype, 0.1)),
                                   upload(numbers(channels, 0.5, 2, dtype, 0.2)),
                                   upload(numbers(channels, -1, 1, dtype, 0.3))};
  const std::vector<Tensor> with_gradient{inputs[0], inputs[1],
                                          upload(numbers(shape, -1, 1, dtype, 0.4))};
  for (const bool training : {true, false}) {
    SCOPED_TRACE(training ? "training" : "evaluation");
    const auto normal = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
      return batch_norm(x, training ? Tensor() : mean, training ? Tensor() : variance, weight, bias,
                        {.training = training});
    };
    const CheckReport first = check_gradients(
        [&](const std::vector<Tensor>& in) { return normal(in[0], in[1], in[2]); }, inputs);
    EXPECT_TRUE(first.passed) << first.message;
    const CheckReport second = check_gradients(
        [&](const std::vector<Tensor>& in) {
          const EnableGrad recording;
          std::vector<Tensor> leaves{in[0], in[1]};
          for (Tensor& leaf : leaves) {
            if (!leaf.requires_grad()) leaf = leaf.detach().set_requires_grad();
          }
          const std::vector<Tensor> slopes = grad({normal(leaves[0], leaves[1], {})}, leaves,
                                                  {.grad_outputs = {in[2]}, .create_graph = true});
          return concat({slopes[0].flatten(), slopes[1]}, 0);
        },
        with_gradient, {.eps = 1e-6, .tol = 1e-6});
    EXPECT_TRUE(second.passed) << second.message;
  }
}

}  // namespace
}  // namespace volta
