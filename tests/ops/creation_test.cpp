// Creation: values, constants, sequences, their dtypes and devices.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "ops/conformance/conformance.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

TensorOptions here(std::optional<DType> dtype = std::nullopt, bool grad = false) {
  return {.dtype = dtype, .device = test_device(), .requires_grad = grad};
}
std::vector<double> doubles(const Tensor& x) { return x.to(Device::cpu()).to_vector<double>(); }
// One dtype of each kind if compiling a kernel takes long.
std::vector<DType> dtypes() {
  if (!thorough()) return {DType::bf16, DType::f32, DType::u8, DType::boolean};
  std::vector<DType> present;
  for (int i = 0; i < kDTypeCount; ++i)
    if (test_device().supports(static_cast<DType>(i))) present.push_back(static_cast<DType>(i));
  return present;
}

TEST(Creation, ConstantsOfEveryDtypeTakeNoMemory) {
  const std::uint64_t before = memory_stats(test_device()).in_use;
  for (const DType dtype : dtypes()) {
    const Tensor tensors[] = {zeros({2, 3}, here(dtype)), ones({2, 3}, here(dtype)),
                              full({2, 3}, 3, here(dtype)), empty({2, 3}, here(dtype))};
    for (const Tensor& x : tensors) {
      EXPECT_EQ(x.dtype(), dtype);
      EXPECT_EQ(x.shape(), Shape({2, 3}));
      EXPECT_EQ(x.device(), test_device());
      EXPECT_FALSE(x.is_pending());
    }
    EXPECT_EQ(memory_stats(test_device()).in_use, before);
    EXPECT_EQ(doubles(tensors[0]), std::vector<double>(6, 0));
    EXPECT_EQ(doubles(tensors[1]), std::vector<double>(6, 1));
    EXPECT_EQ(doubles(tensors[2]), std::vector<double>(6, dtype == DType::boolean ? 1 : 3));
  }
}

TEST(Creation, DtypesFollowValuesUnlessSaid) {
  EXPECT_EQ(full({2}, 1, here()).dtype(), DType::i64);
  EXPECT_EQ(full({2}, 1.0, here()).dtype(), DType::f32);
  EXPECT_EQ(full({2}, true, here()).dtype(), DType::boolean);
  EXPECT_EQ(scalar(1, here()).dtype(), DType::i64);
  EXPECT_EQ(scalar(1.0, here()).dtype(), DType::f32);
  EXPECT_EQ(scalar(true, here()).dtype(), DType::boolean);
  EXPECT_EQ(scalar(1, here(DType::f32)).dtype(), DType::f32);
  EXPECT_EQ(tensor({0, 1}, here()).dtype(), DType::f32);
  EXPECT_EQ(from_vector<std::int32_t>({1, 2}, here()).dtype(), DType::i32);
  EXPECT_EQ(from_vector<std::uint8_t>({1, 2}, here()).dtype(), DType::u8);
  EXPECT_EQ(from_vector<std::uint8_t>({1, 0}, here(DType::boolean)).to_vector<bool>(),
            (std::vector<bool>{true, false}));
  EXPECT_EQ(arange(3, here()).dtype(), DType::i64);
  EXPECT_EQ(arange(3.0, here()).dtype(), DType::f32);
  EXPECT_EQ(arange(0, 3, 1.0, here()).dtype(), DType::f32);
  EXPECT_EQ(linspace(0, 1, 3, here()).dtype(), DType::f32);
  EXPECT_EQ(eye(2, here()).dtype(), DType::f32);
  EXPECT_EQ(zeros({2}, here()).dtype(), DType::f32);
  EXPECT_TRUE(zeros({2}, here(std::nullopt, true)).requires_grad());
  EXPECT_TRUE(arange(3.0, here(std::nullopt, true)).requires_grad());
  EXPECT_TRUE(eye(3, here(std::nullopt, true)).is_leaf());
}

TEST(Creation, LikeTakesWhatOptionsDoNotSay) {
  const Tensor x = zeros({3, 2}, here(DType::i32));
  const auto expect_like = [&](const Tensor& y, DType dtype) {
    EXPECT_EQ(y.shape(), x.shape());
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.device(), test_device());
  };
  expect_like(zeros_like(x), DType::i32);
  expect_like(ones_like(x, {.dtype = DType::u8}), DType::u8);
  expect_like(full_like(x, 7), DType::i32);
  expect_like(empty_like(x), DType::i32);
  expect_like(randint_like(x, 0, 5), DType::i32);
  expect_like(bernoulli_like(x, 0.5), DType::i32);
  expect_like(rand_like(x, {.dtype = DType::f32}), DType::f32);
  expect_like(randn_like(x, {.dtype = DType::f32}), DType::f32);
  expect_like(uniform_like(x, 1, 2, {.dtype = DType::f16}), DType::f16);
  EXPECT_EQ(zeros_like(x, {.device = Device::cpu()}).device(), Device::cpu());
  EXPECT_TRUE(zeros_like(x, {.dtype = DType::f32, .requires_grad = true}).requires_grad());
  EXPECT_FALSE(zeros_like(ones({2}, here(std::nullopt, true))).requires_grad());
  EXPECT_EQ(doubles(full_like(x, 7)), std::vector<double>(6, 7));
}

TEST(Creation, ArangeOfIntegersIsExact) {
  EXPECT_EQ(arange(4, here()).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(arange(2, 9, 3, here()).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 5, 8}));
  EXPECT_EQ(arange(2, 8, 3, here()).to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 5}));
  EXPECT_EQ(arange(5, -1, -2, here()).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{5, 3, 1}));
  EXPECT_EQ(arange(3, 3, here()).numel(), 0);
  EXPECT_EQ(arange(0, here()).numel(), 0);
  constexpr std::int64_t big = std::int64_t{1} << 62;
  EXPECT_EQ(arange(big, big + 3, here()).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{big, big + 1, big + 2}));
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                         most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(arange(least, most, most, here()).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{least, -1, most - 1}));
  for (const DType dtype : dtypes()) {
    if (dtype == DType::boolean) continue;
    EXPECT_EQ(doubles(arange(1, 8, 3, here(dtype))), (std::vector<double>{1, 4, 7})) << dtype;
  }
}

TEST(Creation, ArangeOfFloatsIsRoundedOnce) {
  const bool wide = test_device().supports(DType::f64);
  const std::vector<float> values = arange(-1, 1, 0.1, here()).to_vector<float>();
  ASSERT_EQ(values.size(), 20u);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = -1 + 0.1 * static_cast<double>(i);
    EXPECT_NEAR(values[i], exact, wide ? 6e-8 * std::abs(exact) + 1e-15 : 2e-7) << i;
  }
  EXPECT_EQ(arange(0.5, here()).to_vector<float>(), std::vector<float>{0});
  EXPECT_EQ(arange(1.0, 2.0, 0.25, here()).to_vector<float>(),
            (std::vector<float>{1, 1.25f, 1.5f, 1.75f}));
  EXPECT_EQ(doubles(arange(0, 2, 0.5, here(DType::f16))), (std::vector<double>{0, 0.5, 1, 1.5}));
}

TEST(Creation, LinspaceMeetsBothEnds) {
  EXPECT_EQ(linspace(3, 9, 1, here()).to_vector<float>(), std::vector<float>{3});
  EXPECT_EQ(linspace(3, 9, 0, here()).numel(), 0);
  EXPECT_EQ(linspace(1, 0, 5, here()).to_vector<float>(),
            (std::vector<float>{1, 0.75f, 0.5f, 0.25f, 0}));
  EXPECT_EQ(linspace(0, 10, 5, here(DType::i64)).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 2, 5, 7, 10}));
  for (const std::int64_t count : {2, 7, 100, 1001}) {
    const std::vector<float> x = linspace(-0.1, 0.7, count, here()).to_vector<float>();
    EXPECT_EQ(x.front(), -0.1f);
    EXPECT_EQ(x.back(), 0.7f);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = -0.1 + 0.8 * static_cast<double>(i) / static_cast<double>(count - 1);
      EXPECT_NEAR(x[i], exact, 1e-7) << i << " of " << count;
    }
  }
}

TEST(Creation, EyeOfEveryDtype) {
  for (const DType dtype : dtypes()) {
    EXPECT_EQ(doubles(eye(2, 3, here(dtype))), (std::vector<double>{1, 0, 0, 0, 1, 0})) << dtype;
  }
  EXPECT_EQ(doubles(eye(3, 2, here())), (std::vector<double>{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(eye(0, 3, here()).shape(), Shape({0, 3}));
  EXPECT_EQ(eye(2, here()).shape(), Shape({2, 2}));
}

TEST(Creation, RankZeroAndEmptyTensorsWork) {
  EXPECT_EQ(full({}, 2.5, here()).item(), 2.5);
  EXPECT_EQ(rand({}, here()).rank(), 0);
  EXPECT_EQ(tensor({4}, Shape{}, here()).item(), 4);
  for (const Tensor& x : {zeros({0, 3}, here()), rand({0, 3}, here()), randn({0, 3}, here()),
                          from_vector<float>({}, Shape{0, 3}, here()),
                          randint(0, 5, {0, 3}, here()), bernoulli({0, 3}, 0.5, here())}) {
    EXPECT_EQ(x.shape(), Shape({0, 3}));
    EXPECT_EQ((x + 1).sum(0).shape(), Shape({3}));
    EXPECT_TRUE(doubles(x).empty());
  }
}

TEST(Creation, SizesAreSixtyFourBits) {
  // More elements than 32 bits can count, without memory.
  const Tensor x = zeros({std::int64_t{3} << 30, 4}, here(DType::u8));
  EXPECT_EQ(x.numel(), std::int64_t{3} << 32);
  EXPECT_EQ(x.narrow(0, (std::int64_t{3} << 30) - 2, 2).to_vector<std::uint8_t>(),
            std::vector<std::uint8_t>(8, 0));
}

TEST(Creation, EmptyIsWrittenLikeAnyOther) {
  Tensor x = empty({2, 2}, here());
  x.copy_(ones({2, 2}, here()));
  x += 1;
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(4, 2));
}

// ---- Printing.

std::string printed(const Tensor& x) {
  std::ostringstream text;
  text << x;
  return text.str();
}

TEST(Printing, IsNestedAndSaysWhatIsUnusual) {
  const std::string where = test_device().is_cpu() ? "" : " " + to_string(test_device());
  EXPECT_EQ(printed(tensor({1, 2, 3, 4}, {2, 2}, here())),
            "[[1.0000, 2.0000],\n [3.0000, 4.0000]]" + where);
  EXPECT_EQ(printed(arange(3, here())), "[0, 1, 2] i64" + where);
  EXPECT_EQ(printed(full({2}, true, here())), "[true, true] bool" + where);
  EXPECT_EQ(printed(scalar(0.5, here())), "0.5000" + where);
  EXPECT_EQ(printed(zeros({0}, here())), "[]" + where);
  EXPECT_EQ(printed(Tensor()), "tensor(undefined)");
}

TEST(Printing, IsTruncated) {
  const std::string text = printed(arange(2000, here()));
  EXPECT_EQ(text.substr(0, text.find(']') + 1), "[0, 1, 2, ..., 1997, 1998, 1999]");
  const std::string rows = printed(zeros({1000, 1000}, here()));
  EXPECT_LT(rows.size(), 600u);
  EXPECT_EQ(rows.substr(0, rows.find('\n')),
            "[[0.0000, 0.0000, 0.0000, ..., 0.0000, 0.0000, 0.0000],");
}

// ---- Reading copies bytes once, and again only after the value has changed.

TEST(Reading, TheHostCopyIsKeptUntilTheHandleChanges) {
  Tensor x = (arange(64, here(DType::f32)) * 2).eval();
  const Tensor same = x;  // another handle
  const auto bytes = [&](const auto& act) {
    const std::uint64_t before = counters().bytes_to_host;
    act();
    return counters().bytes_to_host - before;
  };
  const std::uint64_t once = test_device().is_cpu() ? 0 : 256;
  EXPECT_EQ(bytes([&] { x.to_vector<float>(); }), once);
  EXPECT_EQ(bytes([&] {
              x.to_vector<float>();
              same.to_vector<double>();
              x.to(Device::cpu());
              printed(same);
              x.detach().to_vector<float>();
            }),
            0u);
  x += 1;
  EXPECT_EQ(bytes([&] { EXPECT_EQ(same.to_vector<float>()[1], 3); }), once);
  EXPECT_EQ(bytes([&] { x.to_vector<float>(); }), 0u);
}

TEST(Reading, AnElementIsReadWhereItLies) {
  constexpr std::int64_t kCount = 5000;
  const Tensor x = (arange(kCount, here(DType::f32)) * 2).eval();
  x[0].item();
  const Counters before = counters();
  for (std::int64_t i = 0; i < kCount; ++i) ASSERT_EQ(x[i].item(), 2.0 * static_cast<double>(i));
  const Counters after = counters();
  EXPECT_EQ(after.plans_built, before.plans_built);
  const std::uint64_t bytes = test_device().is_cpu() ? 0 : kCount * sizeof(float);
  EXPECT_EQ(after.bytes_to_host - before.bytes_to_host, bytes);
  EXPECT_EQ(after.nodes_recorded, before.nodes_recorded);
  EXPECT_EQ(after.submits, before.submits);
}

TEST(Reading, ElementsAreThoseOfTheSelection) {
  Tensor x = arange(60, here(DType::i64)).reshape({3, 4, 5}).eval();
  EXPECT_EQ((x.index({1, 2, 3}).item<std::int64_t>()), 33);
  EXPECT_EQ((x.index({-1, -4, -5}).item<std::int64_t>()), 40);
  EXPECT_EQ((x[2][1].index({Slice{3, 4}}).item<std::int64_t>()), 48);
  EXPECT_EQ((x.index({NewAxis{}, 0, Slice{1, 2}, 4}).item<std::int64_t>()), 9);
  EXPECT_EQ((x.index({from_vector<std::int64_t>({2}, here()), 0, 1}).item<std::int64_t>()), 41);
  EXPECT_THROW(x[0][0].item(), ShapeError);
  EXPECT_THROW(x.index({0, 0, Slice{1, 1}}).item(), ShapeError);
  EXPECT_THROW((x.to(DType::f32) / 2).eval().index({0, 0, 1}).item<int>(), DTypeError);
  // The value at the time of the selection, whatever is assigned afterwards.
  const Selection then = x.index({0, 0, 1});
  x += 100;
  EXPECT_EQ((x.index({0, 0, 1}).item<std::int64_t>()), 101);  // of a value that is still pending
  EXPECT_EQ(then.item<std::int64_t>(), 1);
  EXPECT_EQ((then + 1).item<std::int64_t>(), 2);
}

// ---- Devices.

TEST(DeviceInfo, CapabilitiesAgreeWithWhatWorks) {
  for (const Device device : devices()) {
    const DeviceCapabilities can = device.capabilities();
    EXPECT_EQ(can.f64, device.supports(DType::f64)) << device;
    EXPECT_GT(device.total_memory(), 0u) << device;
    EXPECT_FALSE(can.gpu && device.is_cpu());
    EXPECT_GE(can.bytes_per_second, 0);
    EXPECT_EQ(std::hash<Device>()(device), std::hash<Device>()(Device::parse(to_string(device))));
  }
  EXPECT_FALSE(Device::cpu().capabilities().gpu);
  EXPECT_EQ(is_gpu_available(), Device::gpu().has_value());
}

TEST(DeviceInfo, ToMovesTensorsModulesAndGradients) {
  nn::Linear layer(3, 2);
  layer.weight->set_grad(ones({2, 3}));
  layer.to(test_device());
  EXPECT_EQ(layer.device(), test_device());
  EXPECT_EQ(layer.weight->grad().device(), test_device());
  EXPECT_TRUE(layer.weight->is_leaf() && layer.weight->requires_grad());
  // Gradients flow back through a move in the middle of a graph.
  const Tensor x = ones({4, 3}, {.requires_grad = true});
  layer((x * 2).to(test_device())).to(Device::cpu()).sum().backward();
  EXPECT_EQ(x.grad().device(), Device::cpu());
  EXPECT_EQ(x.grad().shape(), Shape({4, 3}));
}

}  // namespace
}  // namespace volta
