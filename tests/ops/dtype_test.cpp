// Element types: conversions between all of them, and devices that lack one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ops/conformance/conformance.h"
#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

// Numbers that distinguish conversions: fractions, ties of halves, ends of ranges, -0.
std::vector<double> numbers_for(DType from) {
  switch (from) {
    case DType::f16:
    case DType::bf16:
      return {0, 1, -1, 0.5, -0.5, 1.5, 2.75, -2.75, 100, 255, 3.140625, -0.0, 1e-3, 0x1p-14};
    case DType::f32:
    case DType::f64:
      return {0,     1,      -1,      0.5,  -0.5,     1.999, -1.999,    127.5,   255,
              2049,  2051,   257,     259,  -0.0,     65519, 65520,     0x1p-24, 0x1.8p-25,
              1e-40, 3.4e38, 1e9 + 1, -7e8, 16777217, 0.1,   2147483520};
    case DType::i32:
      return {0, 1, -1, 255, 256, -256, 2049, 16777217, 2147483647, -2147483648.0};
    case DType::i64:
      return {0, 1, -1, 255, 256, 2049, 2147483648.0, -4294967296.0, 9007199254740991.0, 1e15 + 1};
    case DType::u8:
      return {0, 1, 2, 127, 128, 255};
    case DType::boolean:
      return {0, 1};
  }
  return {};
}

// C's conversion, with integers that wrap.
double converted(double value, DType from, DType to) {
  if (to == DType::boolean) return value != 0 ? 1 : 0;
  if (is_floating(to)) {
    const bool half = to == DType::f16 || to == DType::bf16;
    // Halves are converted from f32.
    return conformance::in_dtype(half && from != DType::f16 && from != DType::bf16
                                     ? conformance::in_dtype(value, DType::f32)
                                     : value,
                                 to);
  }
  const auto whole = static_cast<std::int64_t>(std::trunc(value));
  if (to == DType::i32) return static_cast<std::int32_t>(whole);
  if (to == DType::u8) return static_cast<std::uint8_t>(whole);
  return static_cast<double>(whole);
}

// Floats outside of an integer dtype's range depend on the device.
bool specified(double value, DType from, DType to) {
  if (!is_floating(from)) return true;
  if (to == DType::i32) return std::abs(value) < 2147483648.0;
  if (to == DType::i64 || to == DType::u8) return std::abs(value) < 9.2e18;
  return true;
}

TEST(DTypes, EveryPairConverts) {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i)
    if (test_device().supports(static_cast<DType>(i))) all.push_back(static_cast<DType>(i));
  for (const DType from : all) {
    const conformance::Array source({static_cast<std::int64_t>(numbers_for(from).size())},
                                    numbers_for(from), from);
    const Tensor x =
        from_vector(source.values, source.shape, {.dtype = from, .device = test_device()});
    std::vector<Tensor> results;
    for (const DType to : all) results.push_back(x.to(to));  // one plan, and one kernel
    for (std::size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(results[k].dtype(), all[k]);
      // f64 represents every value here exactly.
      const std::vector<double> got = results[k].to(Device::cpu()).to_vector<double>();
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (!specified(source.values[i], from, all[k])) continue;
        const double wanted = converted(source.values[i], from, all[k]);
        EXPECT_EQ(got[i], wanted) << source.values[i] << " " << from << " to " << all[k];
        EXPECT_EQ(std::signbit(got[i]), std::signbit(wanted)) << source.values[i];
      }
    }
  }
}

TEST(DTypes, NanAndInfinity) {
  const Tensor x = tensor({NAN, INFINITY, -INFINITY}, {.device = test_device()});
  EXPECT_EQ(x.to(DType::boolean).to_vector<bool>(), (std::vector<bool>{true, true, true}));
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    if (!test_device().supports(dtype)) continue;
    const auto values = x.to(dtype).to_vector<double>();
    EXPECT_TRUE(std::isnan(values[0])) << dtype;
    EXPECT_EQ(values[1], INFINITY) << dtype;
    EXPECT_EQ(values[2], -INFINITY) << dtype;
  }
  // As integers these are unspecified numbers: there is no error, and their neighbours are correct.
  const Tensor mixed = tensor({1, NAN, 3, INFINITY, -5}, {.device = test_device()});
  for (const DType dtype : {DType::i32, DType::i64}) {
    const auto values = mixed.to(dtype).to(Device::cpu()).to(DType::i64).to_vector<std::int64_t>();
    EXPECT_EQ(values[0], 1);
    EXPECT_EQ(values[2], 3);
    EXPECT_EQ(values[4], -5);
  }
}

TEST(DTypes, ConversionsToFloatsHaveAGradient) {
  const Tensor x = tensor({1, 2}, {.device = test_device(), .requires_grad = true});
  (x.to(DType::f16) * 3).to(DType::f32).sum().backward();
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{3, 3}));
}

// ---- A device without f64: a process in which OpenCL does not support it.

// Exits with 0 if everything that must work does, and everything else gives an error.
[[noreturn]] void use_a_device_without_f64() {
  const Device device = Device::opencl(0);
  const std::string start = to_string(device) + " (" + device.name() + ") has no f64";
  bool good = !device.supports(DType::f64) && !device.capabilities().f64;
  const auto refused = [&](const std::string& op, auto act) {
    try {
      act();
      std::fprintf(stderr, "%s passed\n", op.c_str());
      good = false;
    } catch (const DTypeError& error) {
      if (error.what() != op + ": " + start) {
        std::fprintf(stderr, "%s\n", error.what());
        good = false;
      }
    }
  };
  const TensorOptions wide{.dtype = DType::f64, .device = device}, here{.device = device};
  const Tensor x = ones({2}, here);
  refused("to", [&] { x.to(DType::f64); });
  refused("to", [&] { ones({2}, {.dtype = DType::f64}).to(device); });
  refused("zeros", [&] { zeros({2}, wide); });
  refused("rand", [&] { rand({2}, wide); });
  refused("randn", [&] { randn({2}, wide); });
  refused("arange", [&] { arange(3, wide); });
  refused("linspace", [&] { linspace(0, 1, 3, wide); });
  refused("eye", [&] { eye(3, wide); });
  refused("tensor", [&] { tensor({1}, wide); });
  refused("zeros_like", [&] { zeros_like(x, {.dtype = DType::f64}); });
  const double value = 1;
  refused("from_blob", [&] { from_blob(&value, {1}, {.device = device}); });
  // Random numbers, sequences and numbers in kernels need no doubles.
  const auto check = [&](const Tensor& on_device, const Tensor& on_cpu, double tolerance) {
    const auto a = on_device.to_vector<double>(), b = on_cpu.to_vector<double>();
    for (std::size_t i = 0; i < b.size(); ++i) {
      if (std::abs(a[i] - b[i]) <= tolerance) continue;
      std::fprintf(stderr, "%zu: %g, expected %g\n", i, a[i], b[i]);
      good = false;
    }
  };
  check(linspace(0, 1, 11, here), linspace(0, 1, 11), 1e-7);
  check(arange(0, 3, 0.3, here), arange(0, 3, 0.3), 3e-7);
  check((x * 0.1 + 3), ones({2}) * 0.1 + 3, 3e-7);
  const auto same = [](Device on) {
    return TensorOptions{.device = on, .generator = Generator(5)};
  };
  check(randint(0, 1 << 30, {64}, same(device)), randint(0, 1 << 30, {64}, same(Device::cpu())), 0);
  check(rand({64}, same(device)), rand({64}, same(Device::cpu())), 0);
  check(randn({64}, same(device)), randn({64}, same(Device::cpu())), 1e-6);
  std::_Exit(good ? 0 : 1);
}

TEST(DTypesDeathTest, DevicesWithoutDoublesSaySo) {
  if (test_device().type() != DeviceType::opencl) GTEST_SKIP() << "hides what OpenCL has";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // uses a new process
  setenv("VOLTA_OPENCL_F64", "off", 1);
  EXPECT_EXIT(use_a_device_without_f64(), testing::ExitedWithCode(0), "");
  unsetenv("VOLTA_OPENCL_F64");
}

}  // namespace
}  // namespace volta
