// Errors of tensors themselves: creation, reading values, gradients, devices.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/errors.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

TensorOptions here(std::optional<DType> dtype = std::nullopt, bool grad = false) {
  return {.dtype = dtype, .device = test_device(), .requires_grad = grad};
}
const Tensor none;

// ---- Creation.

TEST(Errors, LengthsAndSizes) {
  expect<ShapeError>([] { tensor({1, 2, 3}, {2, 2}); },
                     "tensor: 3 values do not fill [2, 2] (4 elements)");
  expect<ShapeError>([] { from_vector<float>({1, 2}, Shape{3}); },
                     "from_vector: 2 values do not fill [3] (3 elements)");
  expect<ShapeError>([] { from_vector<float>({}, Shape{}); },
                     "from_vector: 0 values do not fill [] (1 elements)");
  expect<ShapeError>([] { zeros({2, -3}); }, "shape: size -3 is negative in [2, -3]");
  expect<ShapeError>([] { ones({kHuge, kHuge}); },
                     "shape: the number of elements of [9223372036854775807, 9223372036854775807] "
                     "exceeds 2^63 - 1");
  expect<ShapeError>([] { rand({1, 1, 1, 1, 1, 1, 1, 1, 1}); }, "shape: 9 axes, at most 8");
  expect<ShapeError>([] { arange(std::int64_t{1} << 62); },
                     "arange: [4611686018427387904] of i64 takes more than 2^62 bytes");
  expect<ShapeError>([] { full({std::int64_t{1} << 61}, 1.5); },
                     "full: [2305843009213693952] of f32 takes more than 2^62 bytes");
  expect<ShapeError>([] { ones({std::int64_t{1} << 60}, here(DType::boolean)).to(DType::i64); },
                     "cast: [1152921504606846976] of i64 takes more than 2^62 bytes");
  expect<ArgumentError>([] { arange(-1); },
                        "arange: from 0 to -1 by 1: the steps lead away from the end");
}

TEST(Errors, RandomNumbers) {
  expect<DTypeError>([] { rand({2}, here(DType::i64)); },
                     "rand: expected a floating-point dtype, got i64");
  expect<DTypeError>([] { randn({2}, here(DType::boolean)); },
                     "randn: expected a floating-point dtype, got bool");
  expect<DTypeError>([] { uniform({2}, 0, 1, here(DType::i32)); },
                     "uniform: expected a floating-point dtype, got i32");
  expect<ArgumentError>([] { uniform({2}, 3, 1); }, "uniform: low 3 is not at most high 1");
  expect<ArgumentError>([] { uniform({2}, 0, std::numeric_limits<double>::quiet_NaN()); },
                        "uniform: low 0 is not at most high nan");
  expect<ArgumentError>([] { randint(3, 3, {2}); }, "randint: [3, 3) is empty");
  expect<ArgumentError>([] { randint(0, (std::int64_t{1} << 48) + 1, {2}); },
                        "randint: [0, 281474976710657) is longer than 2^48");
  expect<ArgumentError>([] { randint(-kHuge, kHuge, {2}); },
                        "randint: [-9223372036854775807, 9223372036854775807) is longer than 2^48");
}

// ---- Reading values.

TEST(Errors, Item) {
  expect<ShapeError>([] { ones({2}, here()).item(); }, "item: expected one element, got [2]");
  expect<ShapeError>([] { ones({0}, here()).item(); }, "item: expected one element, got [0]");
  expect<ArgumentError>([] { none.item(); }, "item: this is not a tensor");
  const Tensor half = scalar(2.5, here());
  expect<DTypeError>([&] { half.item<std::int64_t>(); }, "item: 2.5 is not exact as i64");
  expect<DTypeError>([&] { (half * 200).item<std::uint8_t>(); }, "item: 500 is not exact as u8");
  expect<DTypeError>([&] { half.item<bool>(); }, "item: 2.5 is not exact as bool");
  expect<DTypeError>([&] { (half * 2e9).item<std::int32_t>(); },
                     "item: 5000000000 is not exact as i32");
  expect<DTypeError>([&] { (half / 0).item<std::int64_t>(); }, "item: inf is not exact as i64");
  expect<DTypeError>([&] { full({}, 300, here()).item<std::uint8_t>(); },
                     "item: 300 is not exact as u8");
  EXPECT_EQ(full({}, 255, here()).item<std::uint8_t>(), 255);
  EXPECT_EQ((half * 2).item<std::int64_t>(), 5);
}

TEST(Errors, IntegersThatAFloatCannotHold) {
  const Tensor big = full({}, std::int64_t{16'777'217}, here());
  expect<DTypeError>([&] { big.item<float>(); }, "item: 16777217 is not exact as f32");
  EXPECT_EQ(big.item<double>(), 16'777'217.0);
  const Tensor bigger = full({}, std::int64_t{9'007'199'254'740'993}, here());
  expect<DTypeError>([&] { bigger.item(); }, "item: 9007199254740993 is not exact as f64");
  EXPECT_EQ(bigger.item<std::int64_t>(), 9'007'199'254'740'993);
}

TEST(Errors, ToVector) {
  const auto wanted = [](const char* from, const char* to) {
    return std::string("to_vector: ") + from + " values do not all fit " + to +
           "; convert with to()";
  };
  expect<DTypeError>([] { ones({2}, here()).to_vector<std::int64_t>(); }, wanted("f32", "i64"));
  expect<DTypeError>([] { ones({2}, here(DType::i64)).to_vector<std::int32_t>(); },
                     wanted("i64", "i32"));
  expect<DTypeError>([] { ones({2}, here(DType::i32)).to_vector<std::uint8_t>(); },
                     wanted("i32", "u8"));
  expect<ArgumentError>([] { none.to_vector<float>(); }, "shape: this is not a tensor");
  EXPECT_EQ(ones({2}, here(DType::boolean)).to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(Errors, UndefinedTensors) {
  expect<ArgumentError>([] { none.shape(); }, "shape: this is not a tensor");
  expect<ArgumentError>([] { none.dtype(); }, "dtype: this is not a tensor");
  expect<ArgumentError>([] { none.device(); }, "device: this is not a tensor");
  expect<ArgumentError>([] { none.eval(); }, "eval: this is not a tensor");
  expect<ArgumentError>([] { none.is_pending(); }, "is_pending: this is not a tensor");
  expect<ArgumentError>([] { none.requires_grad(); }, "requires_grad: this is not a tensor");
  expect<ArgumentError>([] { none.is_leaf(); }, "is_leaf: this is not a tensor");
  expect<ArgumentError>([] { none.grad(); }, "grad: this is not a tensor");
  expect<ArgumentError>([] { none.detach(); }, "detach: this is not a tensor");
  expect<ArgumentError>([] { none.to(DType::f32); }, "to: this is not a tensor");
  expect<ArgumentError>([] { none.to(Device::cpu()); }, "to: this is not a tensor");
  expect<ArgumentError>([] { none.clone(); }, "clone: this is not a tensor");
  expect<ArgumentError>([] { none.backward(); }, "backward: this is not a tensor");
  Tensor nothing, x = ones({2}, here());
  expect<ArgumentError>([&] { nothing += 1; }, "+=: the input is not a tensor");
  expect<ArgumentError>([&] { nothing.fill_(1); }, "fill_: this is not a tensor");
  expect<ArgumentError>([&] { nothing.copy_(x); }, "copy_: this is not a tensor");
  expect<ArgumentError>([&] { x.copy_(nothing); }, "copy_: the source is not a tensor");
  expect<ArgumentError>([&] { assign(nothing, x); }, "assign: the variable is not a tensor");
  expect<ArgumentError>([&] { assign(x, nothing); }, "assign: the value is not a tensor");
  expect<ArgumentError>([&] { nothing.set_requires_grad(); },
                        "set_requires_grad: this is not a tensor");
  expect<ArgumentError>([&] { nothing.set_grad(x); }, "set_grad: this is not a tensor");
  expect<ArgumentError>([&] { nothing.zero_grad(); }, "zero_grad: this is not a tensor");
  expect<ShapeError>([&] { x.size(1); }, "size: axis 1 is out of range for [2]");
}

// ---- Gradients.

TEST(Errors, Backward) {
  const Tensor x = ones({2}, here(std::nullopt, true));
  expect<ShapeError>([&] { (x * 2).backward(); },
                     "backward: [2] is not a scalar; pass a gradient of its shape");
  expect<ShapeError>([&] { (x * 2).backward(ones({3}, here())); },
                     "backward: gradient [3] for a tensor [2]");
  expect<ArgumentError>([&] { (x * 2).backward(none); }, "backward: the gradient is not a tensor");
  const std::string history =
      "backward: the tensor has no history (no input required a gradient, or it was recorded under "
      "NoGrad)";
  expect<ArgumentError>([] { ones({}, here()).backward(); }, history);
  expect<ArgumentError>([] { ones({2}, here()).sum().backward(); }, history);
  expect<ArgumentError>([&] { x.argmax().backward(); }, history);
  expect<ArgumentError>([&] { x.to(DType::i64).to(DType::f32).sum().backward(); }, history);
  {
    const NoGrad off;
    const Tensor y = x.sum();
    expect<ArgumentError>([&] { y.backward(); }, history);
  }
}

TEST(Errors, ASecondBackwardNamesThePlace) {
  const Tensor x = ones({2}, here(std::nullopt, true));
  const int line = __LINE__ + 1;
  const Tensor y = x.exp();
  const Tensor z = y.sum();
  z.backward();
  const std::string place = std::string(__FILE__) + ":" + std::to_string(line);
  expect<ArgumentError>(
      [&] { (y * 2).sum().backward(); },
      "backward: the history of exp (" + place +
          ") was used by an earlier backward(); pass {.retain_graph = true} to the first one");
}

TEST(Errors, LeavesAndGradients) {
  Tensor x = ones({2}, here(std::nullopt, true));
  Tensor y = x * 2;
  expect<ArgumentError>([&] { y.set_requires_grad(false); },
                        "set_requires_grad: only leaves can be changed; use detach()");
  Tensor i = ones({2}, here(DType::i64));
  expect<DTypeError>([&] { i.set_requires_grad(); },
                     "set_requires_grad: expected a floating-point tensor, got i64");
  expect<DTypeError>([] { zeros({2}, here(DType::i32, true)); },
                     "zeros: expected a floating-point dtype for requires_grad, got i32");
  const auto refused = [](const char* op) {
    return std::string(op) + ": a leaf that requires a gradient changes in place only under NoGrad";
  };
  expect<ArgumentError>([&] { x += 1; }, refused("+="));
  expect<ArgumentError>([&] { x.fill_(1); }, refused("fill_"));
  expect<ArgumentError>([&] { x.copy_(y); }, refused("copy_"));
  expect<ShapeError>([&] { x.set_grad(ones({3}, here())); },
                     "set_grad: [3] does not fit into [2] in place");
  {
    const NoGrad off;
    x += 1;
  }
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 2}));
  expect<ArgumentError>(
      [] {
        check_gradients([](const std::vector<Tensor>& in) { return in[0]; }, std::vector<Tensor>{});
      },
      "check_gradients: no inputs");
  expect<DTypeError>([&] { check_gradients([](const Tensor& in) { return in; }, i); },
                     "check_gradients: expected a floating-point tensor, got i64");
}

// ---- Devices.

class MixedDevicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
    set_log_handler([this](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) heard_.emplace_back(text);
    });
  }
  void TearDown() override { set_log_handler({}); }

  std::string place(int line) const { return std::string(__FILE__) + ":" + std::to_string(line); }
  std::string gpu() const { return to_string(test_device()); }

  std::vector<std::string> heard_;
};

TEST_F(MixedDevicesTest, AreRefusedWhereThePolicySaysSo) {
  const Tensor a = ones({2, 2}), b = ones({2}, here());
  const ExecutionContext strict({.mixed_devices = MixedDevices::error});
  // The message has a line of this test; the exact line is checked where operands are moved.
  const auto refused = [&](const std::string& op, const std::string& left, const std::string& right,
                           auto act) {
    try {
      act();
      ADD_FAILURE() << op << " passed";
    } catch (const DeviceError& error) {
      const std::string message = error.what();
      const std::string expected =
          op + ": operands on " + left + " and " + right + " (" + __FILE__ + ":";
      EXPECT_EQ(message.substr(0, expected.size()), expected);
      EXPECT_EQ(message.find_first_not_of("0123456789)", expected.size()), std::string::npos)
          << message;
    }
  };
  const std::string on_cpu = "cpu [2, 2]", vector = gpu() + " [2]", matrix = gpu() + " [2, 2]";
  const Tensor wide = ones({2, 2}, here()), ids = ones({2}, here(DType::i64));
  const Tensor flags = ones({2, 2}, {.dtype = DType::boolean});
  refused("add", on_cpu, vector, [&] { a + b; });
  refused("mul", vector, on_cpu, [&] { mul(b, a); });
  refused("matmul", on_cpu, vector, [&] { matmul(a, b); });
  refused("linear", on_cpu, matrix, [&] { linear(a, wide); });
  refused("mse_loss", on_cpu, matrix, [&] { mse_loss(a, wide); });
  refused("embedding", on_cpu, vector, [&] { embedding(a, ids); });
  refused("cross_entropy", on_cpu, vector, [&] { cross_entropy(a, ids); });
  refused("layer_norm", on_cpu, vector, [&] { layer_norm(a, {2}, b); });
  refused("where", on_cpu, vector, [&] { where(flags, a, b); });
  EXPECT_TRUE(heard_.empty());
}

TEST_F(MixedDevicesTest, MoveToTheGpuWithOneWarningPerPlace) {
  const Tensor a = ones({2}), b = ones({2}, here());
  int line = 0;
  for (int i = 0; i < 3; ++i) {
    line = __LINE__ + 1;
    const Tensor c = a + b;
    EXPECT_EQ(c.device(), test_device());
    EXPECT_EQ(c.to_vector<float>(), (std::vector<float>{2, 2}));
  }
  const std::string moved = "add: operands on cpu and " + gpu() + ": moved to " + gpu();
  EXPECT_EQ(heard_, std::vector<std::string>{moved + " (" + place(line) + ")"});
  heard_.clear();
  line = __LINE__ + 1;
  EXPECT_EQ((a + b).device(), test_device());
  EXPECT_EQ(heard_, std::vector<std::string>{moved + " (" + place(line) + ")"});
}

TEST_F(MixedDevicesTest, WhatIsUpdatedInPlaceStaysWhereItIs) {
  Tensor host = ones({3});
  const Tensor there = ones({3}, {.device = test_device()});
  host += there;
  EXPECT_EQ(host.device(), Device::cpu());
  EXPECT_EQ(host.to_vector<float>(), (std::vector<float>{2, 2, 2}));
  Tensor device = there.clone();
  device *= host;
  EXPECT_EQ(device.device(), test_device());
  EXPECT_EQ(device.to_vector<float>(), (std::vector<float>{2, 2, 2}));
}

TEST_F(MixedDevicesTest, MoveToTheCpuWhereThePolicySaysSo) {
  const Tensor a = ones({2}), b = ones({2}, here());
  const ExecutionContext host({.mixed_devices = MixedDevices::to_cpu});
  const int line = __LINE__ + 1;
  const Tensor c = b - a;
  EXPECT_EQ(c.device(), Device::cpu());
  EXPECT_EQ(heard_, std::vector<std::string>{"sub: operands on " + gpu() +
                                             " and cpu: moved to cpu (" + place(line) + ")"});
}

}  // namespace
}  // namespace volta::errors
