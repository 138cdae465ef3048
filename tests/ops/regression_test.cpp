// Mistakes of the past, each with the smallest program that showed it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/detail/optimizer_ops.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here(bool grad = false) { return {.device = test_device(), .requires_grad = grad}; }
TensorOptions here(DType dtype) { return {.dtype = dtype, .device = test_device()}; }

TEST(Regression, AThreadMayEndWithPendingWorkAfterItEvaluated) {
  Tensor left;
  std::thread worker([&] {
    (ones({100}, here()) * 2 + 1).sum().item();
    left = ones({8}, here()).clone() * 3.5 + 1;
  });
  worker.join();
  EXPECT_EQ(left.to_vector<float>(), std::vector<float>(8, 4.5f));
  std::thread other([&] { left = (left * 2).softmax(0); });
  other.join();
  EXPECT_EQ((left + 1).to_vector<float>(), std::vector<float>(8, 1.125f));
}

TEST(Regression, AScalarDoesNotTakeOverAOneElementBuffer) {
  for (int round = 0; round < 2; ++round) {
    const Tensor x = tensor({0.5}, {1}, here());
    Tensor t = tensor({0.25}, {1}, here());
    const Tensor y = x.tanh();
    const Tensor r = x.reshape(Shape{}) * t.reshape(Shape{}) * 2.5;
    t = Tensor();
    submit(test_device());
    EXPECT_EQ(r.item(), 0.3125);
    EXPECT_NEAR(y.item(), std::tanh(0.5), 1e-6);
  }
}

TEST(Regression, AnEmptyBatchHasZeroGradients) {
  const Tensor b = tensor({1, 2, 3}, {3}, here(true));
  (zeros({0, 3}, here()) + b).sum().backward();
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
  nn::Linear layer(3, 2, {.device = test_device()});
  layer(zeros({0, 3}, here())).sum().backward();
  for (const Tensor& p : layer.parameters()) {
    for (const float g : p.grad().to_vector<float>()) EXPECT_EQ(g, 0);
  }
}

TEST(Regression, LinearOfNoFeaturesIsItsBias) {
  const Tensor y =
      linear(ones({2, 3, 0}, here()), ones({4, 0}, here()), tensor({1, 2, 3, 4}, {4}, here()));
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(y.sum().item(), 60);
}

TEST(Regression, HalvesAreComputedInF32AndRoundedOnce) {
  for (const DType half : {DType::f16, DType::bf16}) {
    const Tensor many = ones({100'000}, here(half));
    EXPECT_EQ(many.mean().item(), 1) << half;
    EXPECT_NEAR(zeros({100'000}, here(half)).softmax(0).sum().item(), 1, 0.02) << half;
    const Tensor x = tensor({400, 1200, 2000, 2800}, {1, 4}, here(half));
    const auto n = layer_norm(x, {4}).to(DType::f32).to_vector<float>();
    EXPECT_NEAR(n[0], -1.3416, 0.01) << half;
    EXPECT_NEAR(n[3], 1.3416, 0.01) << half;
    EXPECT_NEAR(where(x > 1000, x, 0).sum(1).item(), 6000, 16) << half;
  }
}

TEST(Regression, AHalfNetworkTakesAStep) {
  manual_seed(3);
  nn::Sequential model({{"a", nn::Linear(6, 8)}, {"r", nn::ReLU()}, {"b", nn::Linear(8, 3)}});
  model.to(test_device());
  model.to(DType::bf16);
  optim::SGD optimizer(model.parameters(), {.lr = 0.5});
  const Tensor x = randn({16, 6}, here(DType::bf16));
  const Tensor labels = randint(0, 3, {16}, here());
  const auto loss = [&] { return cross_entropy(model(x), labels); };
  const double before = loss().item();
  for (int i = 0; i < 30; ++i) {
    optimizer.zero_grad();
    loss().backward();
    optimizer.step();
  }
  EXPECT_LT(loss().item(), before * 0.8);
}

TEST(Regression, TheFirstMomentumStepIsTakenOnce) {
  const Tensor p = tensor({0}, {1}, here(true));
  std::vector<Tensor> momentum(1);
  double value = 0, buffer = 0;
  for (int step = 0; step < 3; ++step) {
    p.set_grad(tensor({1}, {1}, here()));
    sgd_step({&p, 1}, momentum, {.lr = 0.3, .momentum = 0.9, .dampening = 0.5});
    buffer = step == 0 ? 1 : 0.9 * buffer + 0.5;
    value -= 0.3 * buffer;
    EXPECT_NEAR(p.item(), value, 1e-6);
  }
}

TEST(Regression, CopyingUnderNoGradLeavesALeaf) {
  Tensor p = tensor({1, 2}, {2}, here(true));
  const Tensor w = tensor({3, 4}, {2}, here(true));
  {
    const NoGrad off;
    p.copy_(w);
  }
  Tensor y = w * 2;
  {
    const NoGrad off;
    p.copy_(y);
  }
  EXPECT_TRUE(p.is_leaf());
  (p * 3).sum().backward();
  EXPECT_EQ(p.grad().to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_FALSE(w.grad().defined());
}

TEST(Regression, CopyingALeafRecordsIt) {
  const Tensor w = tensor({3, 4}, {2}, here(true));
  Tensor b = zeros({2}, here());
  b.copy_(w);
  (b * 5).sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{5, 5}));
}

TEST(Regression, AnAssignmentAfterAFailedOneStays) {
  Tensor p = tensor({1, 2, 3}, {3}, here());
  const Tensor small = (ones({4}, here()) * 3).eval();
  synchronize(test_device());
  empty_cache(test_device());
  set_memory_limit(test_device(), memory_stats(test_device()).reserved + (std::uint64_t{32} << 20));
  p += 1;
  p.fill_(7);
  const Tensor huge = ones({64'000'000}, here()) * small.sum();
  EXPECT_THROW(huge.eval(), OutOfMemory);
  set_memory_limit(test_device(), 0);
  EXPECT_EQ(p.to_vector<float>(), (std::vector<float>{7, 7, 7}));
}

TEST(Regression, AGradientHandleSeesItGrow) {
  const Tensor w = tensor({1, 1}, {2}, here(true));
  (w * 2).sum().backward();
  const Tensor g = w.grad();
  (w * 3).sum().backward();
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{5, 5}));
}

TEST(Regression, ConstantsThatRequireGradientsKeepTheirHistory) {
  const Tensor w = ones({3}, here(true));
  (w * 3).sum().backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{3, 3, 3}));
}

TEST(Regression, ARowIsNotOverwrittenWhileItIsReadAgain) {
  Tensor x = tensor({1, 5, 2, 7, 3, 4}, {2, 3}, here());
  const Tensor a = x * 2, b = x - x.max(1, true);
  x = Tensor();
  submit(test_device());
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{2, 10, 4, 14, 6, 8}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{-4, 0, -3, 0, -4, -3}));
}

TEST(Regression, ManyCheckedPlacesAreAllNamed) {
  const Tensor table = ones({4, 2}, here()).clone().eval();
  Tensor sum = zeros({1, 2}, here());
  for (int i = 0; i < 300; ++i) {
    sum = sum + embedding(table, from_vector<std::int64_t>({i == 290 ? 9 : 1}, here()));
  }
  try {
    sum.to_vector<float>();
    FAIL() << "no error";
  } catch (const IndexError& e) {
    EXPECT_NE(std::string(e.what()).find("embedding ("), std::string::npos) << e.what();
  }
}

TEST(Regression, ScalarsOfScalarsAreAllStored) {
  const Tensor x = tensor({0.5}, Shape{}, here()), y = tensor({0.25}, Shape{}, here());
  const Tensor choice = tensor({1}, Shape{}, here(DType::boolean));
  const Tensor a = x.tanh(), b = y.minimum(a), c = where(choice, b, b);
  submit(test_device());
  EXPECT_NEAR(a.item(), std::tanh(0.5), 1e-6);
  EXPECT_EQ(b.item(), 0.25);
  EXPECT_EQ(c.item(), 0.25);
}

TEST(Regression, ComputedHalvesArePadded) {
  for (const DType half : {DType::f16, DType::bf16}) {
    if (!test_device().supports(half)) continue;
    const Tensor x = tensor({1, 2, 3}, {3}, here(half));
    const std::int64_t before[] = {1}, after[] = {2};
    EXPECT_EQ(pad(x * x, before, after).to_vector<float>(), (std::vector<float>{0, 1, 4, 9, 0, 0}));
    EXPECT_EQ(pad(ones({2}, here(half)), before, after, 0.5).to_vector<float>(),
              (std::vector<float>{0.5f, 1, 1, 0.5f, 0.5f}));
  }
}

TEST(Regression, PaddedRandomNumbersAreTheSameNumbers) {
  const std::int64_t before[] = {0, 1}, after[] = {3, 0};
  manual_seed(5);
  const std::vector<float> plain = rand({5, 5}, here()).to_vector<float>();
  manual_seed(5);
  const Tensor padded = pad(rand({5, 5}, here()), before, after);
  const std::vector<float> wide = padded.to_vector<float>();
  for (std::size_t i = 0; i < 25; ++i) EXPECT_EQ(wide[i / 5 * 6 + i % 5 + 1], plain[i]) << i;
}

TEST(Regression, BoolsAreZeroOrOne) {
  Tensor b = zeros({2}, here(DType::boolean));
  b.fill_(2);
  EXPECT_EQ(b.sum().item(), 2);
  EXPECT_EQ((b.to(DType::f32) + full({2}, 0.5, here(DType::boolean)).to(DType::f32)).sum().item(),
            4);
}

TEST(Regression, AScalarIsStoredBesideAnEmptyTensor) {
  const Tensor x = tensor({0.5}, Shape{}, here());
  const Tensor empty = from_vector(std::vector<float>{}, {5, 0}, here());
  const Tensor y = x.tanh(), z = empty + y;
  submit(test_device());
  EXPECT_NEAR(y.item(), std::tanh(0.5), 1e-6);
}

TEST(Regression, AnEmptyBatchHasNoLoss) {
  for (const std::int64_t classes : {1, 3}) {
    const Tensor logits = ones({0, classes}, here()).clone().eval();
    const Tensor labels = zeros({0}, here(DType::i64)).clone().eval();
    EXPECT_EQ(cross_entropy(logits, labels, {.reduction = Reduction::sum}).item(), 0);
  }
}

TEST(Regression, AProductThatIsSummedIsAlsoKept) {
  const Tensor g = tensor({1, 2, 3, 4}, {4}, here()), s = tensor({0.5, 1, 1.5, 2}, {4}, here());
  Tensor r = g * s;
  const Tensor y = r - s * r.sum(0, true);
  r = Tensor();
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{-7, -13, -18, -22}));
}

TEST(Regression, WhatIsUpdatedInPlaceIsReadAfterwards) {
  const Tensor w = tensor({1, 2, 3}, {3, 1}, here());
  Tensor x, y, z;
  for (int round = 0; round < 3; ++round) {
    x = tensor({10.0 + round}, {1}, here());
    x += x;
    y = linear(x, w, tensor({1, 1, 1}, {3}, here()));
    z = w.to(DType::i32);
  }
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{25, 49, 73}));
}

TEST(Regression, TwoReadsOfWhatIsUpdatedInPlaceAgree) {
  Tensor x = tensor({2, 4, 6, 8, 10, 12}, {2, 3, 1}, here());
  const Tensor ids = tensor({1, 0, 1}, {3}, here(DType::i64));
  const Tensor mean = x.mean(2);
  x /= 2.5;
  const Tensor both = logical_and(ids, mean);
  submit(test_device());
  EXPECT_EQ(both.sum().item(), 4);
  EXPECT_NEAR(x.sum().item(), 16.8, 1e-5);
  EXPECT_EQ(mean.sum().item(), 42);
}

TEST(Regression, OneElementIsNotOverwrittenBeforeItIsCompared) {
  Tensor x = tensor({0.5}, {1, 1, 1}, here());
  const Tensor rows = tensor({-1, -2, -3, -4, -5, -6}, {1, 6}, here());
  const Tensor low = rows.floor(), mean = low.mean(1), less = x.lt(0.25);
  x *= mean;
  submit(test_device());
  EXPECT_EQ(less.item(), 0);
  EXPECT_EQ(x.item(), -1.75);
}

TEST(Regression, ATableOfOneNumberIsWrittenBeforeItIsRead) {
  for (int round = 0; round < 2; ++round) {
    const Tensor ids = tensor({0, 0}, {2}, here(DType::i64));
    const Tensor a = ids + 1;
    const Tensor row = embedding(full({1, 1}, 0.75 + round, here()), ids);
    submit(test_device());
    EXPECT_EQ(row.to_vector<float>(), std::vector<float>(2, 0.75f + static_cast<float>(round)));
    EXPECT_EQ(a.sum().item(), 2);
  }
}

// The ninth instruction is a reduction, whose helpers in the kernel must not be named like a type.
TEST(Regression, HelpersAreNotCalledLikeTypes) {
  const Tensor x = ones({257}, here(DType::bf16)).clone().eval();
  const Tensor weight = ones({257}, here(DType::bf16)).clone().eval();
  const Tensor y = layer_norm(x, {257}, weight, weight);
  EXPECT_EQ(ge(y, weight).to(DType::i32).sum().item(), 257);
}

// A kernel that computes an early and a late value is needed by kernels between them.
TEST(Regression, KernelsDoNotWaitForEachOther) {
  const Tensor weight = tensor({1, 2, 3, 4}, {2, 2}, here());
  const Tensor x = arange(2, here(DType::f32));
  const Tensor bias = tensor({0.5, 0.25}, {2}, here());
  const Tensor y = linear(x, weight, bias);
  const Tensor above = ge(bias, 0.3);
  const Tensor ratio = div(x, above);
  const Tensor dot = matmul(bias, y);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2.5f, 4.25f}));
  EXPECT_EQ(dot.item(), 2.3125);
  EXPECT_EQ(ratio.to_vector<float>()[0], 0);
}

TEST(Regression, NumbersThatDoNotFitAreRefusedEverywhere) {
  const auto refused = [](const auto& act, const std::string& message) {
    errors::expect<ArgumentError>(act, message);
  };
  Tensor bytes = zeros({2}, here(DType::u8)), ints = zeros({2}, here(DType::i32));
  refused([&] { full({2}, 300, here(DType::u8)); }, "full: 300 does not fit u8");
  refused([&] { bytes.fill_(300); }, "fill_: 300 does not fit u8");
  refused([&] { bytes.fill_(-1.5); }, "fill_: -1.5 does not fit u8");
  refused([&] { ints.fill_(std::int64_t{1} << 31); }, "fill_: 2147483648 does not fit i32");
  refused([&] { ints.fill_(std::nan("")); }, "fill_: nan does not fit i32");
  refused([&] { tensor({1, 300}, here(DType::u8)); }, "tensor: 300 does not fit u8");
  refused([&] { tensor({1, -2}, here(DType::u8)); }, "tensor: -2 does not fit u8");
  refused([&] { tensor({3e9}, here(DType::i32)); }, "tensor: 3000000000 does not fit i32");
  refused([&] { tensor({1e19}, here(DType::i64)); }, "tensor: 1e+19 does not fit i64");
  refused([&] { from_vector<std::int64_t>({256}, here(DType::u8)); },
          "from_vector: 256 does not fit u8");
  refused([&] { pad(bytes, std::array<std::int64_t, 1>{1}, std::array<std::int64_t, 1>{0}, 256); },
          "pad: 256 does not fit u8");
  refused([&] { full({}, ~std::uint64_t{0}, here(DType::i64)); },
          "full: 1.8446744073709552e+19 does not fit i64");
  // Fractions are truncated; floats and bools accept everything.
  EXPECT_EQ(bytes.fill_(255.9).to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{255, 255}));
  EXPECT_EQ(tensor({-0.5, 255}, here(DType::u8)).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(tensor({-3, 0}, here(DType::boolean)).to_vector<std::uint8_t>(),
            (std::vector<std::uint8_t>{1, 0}));
  EXPECT_TRUE(std::isinf(tensor({1e300}, here(DType::f32)).item()));
}

TEST(Regression, AGradientHandleOfALeafSeesItGrow) {
  const Tensor x = tensor({1, 2}, {2}, here(true)), seed = tensor({3, 4}, {2}, here());
  x.backward(seed);
  const Tensor g = x.grad();
  x.backward(seed);
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{6, 8}));
  (x * 2).backward(seed);
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{12, 16}));
  EXPECT_EQ(seed.to_vector<float>(), (std::vector<float>{3, 4}));
}

TEST(Regression, ScatteringBoolsSaysWhatIsTaken) {
  const Tensor bools = zeros({3, 2}, here(DType::boolean)), ids = tensor({0}, here(DType::i64));
  errors::expect<DTypeError>([&] { index_add(bools, 0, ids, zeros({1, 2}, here(DType::boolean))); },
                             "index_add: expected a floating-point or integer tensor, got bool");
}

TEST(Regression, IndicesOfRowsWithoutElementsAreChecked) {
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    for (const std::vector<double>& ids : {std::vector<double>{0, 5}, std::vector<double>{9}}) {
      const auto count = static_cast<std::int64_t>(ids.size());
      const auto scattered = [&](std::int64_t rows) {
        const Tensor index = from_vector(ids, here(dtype));
        return index_add(zeros({rows, 0}, here()), 0, index, zeros({count, 0}, here()));
      };
      const auto embedded = [&](std::int64_t rows) {
        return embedding(zeros({rows, 0}, here()), from_vector(ids, here(dtype)));
      };
      EXPECT_THROW(scattered(4).to_vector<float>(), IndexError);
      EXPECT_EQ(scattered(10).to_vector<float>(), std::vector<float>());
      EXPECT_THROW(embedded(4).to_vector<float>(), IndexError);
      EXPECT_EQ(embedded(10).to_vector<float>(), std::vector<float>());
    }
  }
}

TEST(Regression, APaddingHasNoIndices) {
  const std::array<std::int64_t, 2> before{3, 0}, after{1, 0};
  const std::vector<float> lines{0, 0, 0, 1.5, 3, 4.5, 6, 0};
  const Tensor table = tensor({1, 2, 3, 4, 5}, {5, 1}, here());
  const Tensor ids = tensor({2, 3, 4, 5}, here(DType::i64));
  // If only this is held, values that are not stored are computed in the padding as well.
  const Tensor shifted = pad(embedding(table, ids - 2) * 1.5, before, after);
  EXPECT_EQ(shifted.to_vector<float>(), lines);
  const Tensor counted = pad(embedding(table, arange(4, here())) * 1.5, before, after);
  EXPECT_EQ(counted.to_vector<float>(), lines);
  const Tensor x = tensor({9, 1.5, 3, 9, 9, 4.5, 6, 9}, {4, 2}, here());
  const Tensor index = tensor({1, 0, 1, 0}, {4, 1}, here(DType::i32));
  Tensor taken = take_along_axis(x, index, 1);
  const Tensor padded = pad(taken, before, after);
  taken -= 1;
  EXPECT_EQ(taken.to_vector<float>(), (std::vector<float>{0.5, 2, 3.5, 5}));
  EXPECT_EQ(padded.to_vector<float>(), lines);
  // Indices out of range outside of the padding are still errors.
  const Tensor outside = pad(embedding(table, ids + 1) * 1.5, before, after);
  EXPECT_THROW(outside.to_vector<float>(), IndexError);
}

TEST(Regression, LongRunningSumsStayAccurate) {
  const Tensor sums = (ones({4200}, here()).clone() * 0.4).cumsum(0);
  const std::vector<float> values = sums.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = static_cast<double>(0.4f) * static_cast<double>(i + 1);
    ASSERT_NEAR(values[i], exact, 5e-6 * exact) << i;
  }
}

// The square of a divisor may overflow or underflow although the quotients do not.
TEST(Regression, QuotientsOfLargeAndSmallNumbersHaveGradients) {
  const auto slope = [](double a, double b, DType dtype) {
    const Tensor divisor =
        tensor({b}, {.dtype = dtype, .device = test_device()}).set_requires_grad();
    (tensor({a}, {.dtype = dtype, .device = test_device()}) / divisor).sum().backward();
    return divisor.grad().item();
  };
  EXPECT_NEAR(slope(1000, 300, DType::f16), -1000.0 / 300 / 300, 1e-5);
  EXPECT_NEAR(slope(1e30, 1e20, DType::f32), -1e-10, 1e-15);
  EXPECT_NEAR(slope(1e-25, 1e-25, DType::f32), -1e25, 1e19);
  EXPECT_EQ(slope(0, 1e-30, DType::f32), 0);
}

TEST(Regression, WhatChangesUnderNoGradKeepsItsHistory) {
  const Tensor x = tensor({2, 3}, here()).set_requires_grad();
  Tensor a = x * 1;
  {
    const NoGrad off;
    a += 1;
    a[0] = 7;
  }
  EXPECT_TRUE(a.requires_grad());
  ((a * a).sum() + x.sum()).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{15, 9}));
}

TEST(Regression, AFunctionMayChangeItsInputsInPlace) {
  const Function f({.name = "f",
                    .forward =
                        [](FunctionContext&, const std::vector<Tensor>& x) {
                          Tensor t = x[0];
                          t += 1;
                          return std::vector<Tensor>{t * 1};
                        },
                    .backward = [](FunctionContext&, const std::vector<Tensor>& g) { return g; }});
  const Tensor x = tensor({2, 3}, here()).set_requires_grad();
  const Tensor a = x * 1;
  const Tensor y = f(a);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 4}));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(Regression, PrintedNumbersShow) {
  const auto text = [](const Tensor& x) {
    std::ostringstream out;
    out << x;
    return out.str();
  };
  EXPECT_EQ(text(tensor({1e-5, 3e-5})), "[1.0000e-05, 3.0000e-05]");
  EXPECT_EQ(text(tensor({1e30, 0})), "[1.0000e+30, 0.0000e+00]");
  EXPECT_EQ(text(tensor({0, 0}) / tensor({0, 1})), "[nan, 0.0000]");
  EXPECT_EQ(text(tensor({0.5, 1234})), "[0.5000, 1234.0000]");
}

TEST(Regression, AnAssignedSelectionMayBeKept) {
  const Tensor x = zeros({3}, here());
  auto&& part = (x[0] = 5);
  EXPECT_EQ(part.item(), 5);
}

// Several reductions of one row, two of them of the same value: each was assigned to a chain that
// did not exist any more, and kept its initial value.
TEST(Regression, ReductionsThatShareAnOperand) {
  const Tensor x = randn({8, 96}, {.device = test_device()});
  x.eval();
  const Tensor squares = x.square().sum(1), sum = x.abs().sum(1), largest = x.abs().max(1);
  submit(test_device());
  const std::vector<float> values = x.to_vector<float>(), found = largest.to_vector<float>(),
                           sums = sum.to_vector<float>();
  for (std::size_t row = 0; row < 8; ++row) {
    float most = 0, total = 0;
    for (std::size_t i = 0; i < 96; ++i) {
      most = std::max(most, std::fabs(values[row * 96 + i]));
      total += std::fabs(values[row * 96 + i]);
    }
    EXPECT_EQ(found[row], most);
    EXPECT_NEAR(sums[row], total, 1e-3F);
  }
}

}  // namespace
}  // namespace volta
