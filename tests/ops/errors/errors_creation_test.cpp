// Errors when creating tensors: values, constants, sequences, random numbers, foreign memory,
// spans, DLPack. Whole messages are compared.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backend/registry.h"
#include "support/errors.h"
#include "support/test_device.h"
#include "volta/dlpack_abi.h"
#include "volta/volta.h"

namespace volta::errors {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TensorOptions here(std::optional<DType> dtype = std::nullopt, bool grad = false) {
  return {.dtype = dtype, .device = test_device(), .requires_grad = grad};
}
const Tensor none;

TEST(CreationErrors, Values) {
  expect<ShapeError>([] { tensor({}, {1}); }, "tensor: 0 values do not fill [1] (1 elements)");
  expect<ShapeError>([] { tensor({1, 2}, {3, 0}, here()); },
                     "tensor: 2 values do not fill [3, 0] (0 elements)");
  expect<ShapeError>([] { from_vector<std::int64_t>({1, 2, 3}, Shape{}, here()); },
                     "from_vector: 3 values do not fill [] (1 elements)");
  expect<ArgumentError>([] { tensor({1, 300}, here(DType::u8)); }, "tensor: 300 does not fit u8");
  expect<ArgumentError>([] { tensor({-1}, here(DType::u8)); }, "tensor: -1 does not fit u8");
  expect<ArgumentError>([] { tensor({1, kNan}, here(DType::i64)); },
                        "tensor: nan does not fit i64");
  expect<ArgumentError>([] { tensor({kInf}, here(DType::i32)); }, "tensor: inf does not fit i32");
  expect<ArgumentError>([] { tensor({1e19}, here(DType::i64)); }, "tensor: 1e+19 does not fit i64");
  expect<ArgumentError>([] { from_vector<std::int64_t>({1, kHuge}, here(DType::i32)); },
                        "from_vector: 9223372036854775807 does not fit i32");
  expect<DTypeError>([] { tensor({1}, here(DType::i64, true)); },
                     "tensor: expected a floating-point dtype for requires_grad, got i64");
}

TEST(CreationErrors, Sizes) {
  expect<ShapeError>([] { zeros({-1}); }, "shape: size -1 is negative in [-1]");
  expect<ShapeError>([] { randn({2, -7, 3}); }, "shape: size -7 is negative in [2, -7, 3]");
  expect<ShapeError>([] { empty({1, 1, 1, 1, 1, 1, 1, 1, 1}); }, "shape: 9 axes, at most 8");
  expect<ShapeError>([] { full({std::int64_t{1} << 40, std::int64_t{1} << 40}, 1); },
                     "shape: the number of elements of [1099511627776, 1099511627776] exceeds "
                     "2^63 - 1");
  const Shape large{std::int64_t{1} << 60, 2};
  const std::string too_large = ": [1152921504606846976, 2] of f32 takes more than 2^62 bytes";
  expect<ShapeError>([&] { zeros(large, here()); }, "zeros" + too_large);
  expect<ShapeError>([&] { ones(large, here()); }, "ones" + too_large);
  expect<ShapeError>([&] { empty(large, here()); }, "empty" + too_large);
  expect<ShapeError>([&] { full(large, 0.5, here()); }, "full" + too_large);
  expect<ShapeError>([&] { rand(large, here()); }, "rand" + too_large);
  expect<ShapeError>([&] { randn(large, here()); }, "randn" + too_large);
  expect<ShapeError>([&] { uniform(large, 0, 1, here()); }, "uniform" + too_large);
  expect<ShapeError>([&] { bernoulli(large, 0.5, here()); }, "bernoulli" + too_large);
  expect<ShapeError>([&] { randint(0, 5, large, here(DType::f32)); }, "randint" + too_large);
  const Tensor wide = zeros(large, here(DType::u8));
  expect<ShapeError>([&] { zeros_like(wide, {.dtype = DType::f32}); }, "zeros_like" + too_large);
  expect<ShapeError>([&] { rand_like(wide, {.dtype = DType::f32}); }, "rand_like" + too_large);
  expect<ShapeError>([] { eye(std::int64_t{1} << 40, here()); },
                     "eye: the number of elements of [1099511627776, 1099511627776] exceeds "
                     "2^63 - 1");
  expect<ShapeError>([] { eye(std::int64_t{1} << 31, here()); },
                     "eye: [2147483648, 2147483648] of f32 takes more than 2^62 bytes");
  expect<ShapeError>([] { linspace(0, 1, std::int64_t{1} << 61, here()); },
                     "linspace: [2305843009213693952] of f32 takes more than 2^62 bytes");
}

TEST(CreationErrors, Constants) {
  expect<ArgumentError>([] { full({2}, 256, here(DType::u8)); }, "full: 256 does not fit u8");
  expect<ArgumentError>([] { full({2}, kNan, here(DType::i32)); }, "full: nan does not fit i32");
  expect<ArgumentError>([] { full({2}, -kInf, here(DType::i64)); }, "full: -inf does not fit i64");
  expect<ArgumentError>([] { full({2}, ~0ull, here()); },
                        "full: 1.8446744073709552e+19 does not fit i64");
  expect<DTypeError>([] { scalar(1, here(std::nullopt, true)); },
                     "scalar: expected a floating-point dtype for requires_grad, got i64");
  expect<ArgumentError>([] { scalar(-1, here(DType::u8)); }, "scalar: -1 does not fit u8");
  expect<ArgumentError>([] { full_like(zeros({2}, here(DType::u8)), 1000); },
                        "full_like: 1000 does not fit u8");
  expect<DTypeError>([] { ones({2}, here(DType::boolean, true)); },
                     "ones: expected a floating-point dtype for requires_grad, got bool");
  for (const auto& [name, make] : std::vector<std::pair<std::string, std::function<void()>>>{
           {"zeros_like", [] { zeros_like(none); }},
           {"ones_like", [] { ones_like(none); }},
           {"full_like", [] { full_like(none, 1); }},
           {"empty_like", [] { empty_like(none); }},
           {"rand_like", [] { rand_like(none); }},
           {"randn_like", [] { randn_like(none); }},
           {"uniform_like", [] { uniform_like(none, 0, 1); }},
           {"randint_like", [] { randint_like(none, 0, 1); }},
           {"bernoulli_like", [] { bernoulli_like(none, 0.5); }},
           {"bernoulli", [] { bernoulli(none); }}}) {
    expect<ArgumentError>(make, name + ": the input is not a tensor");
  }
}

TEST(CreationErrors, Sequences) {
  expect<ArgumentError>([] { arange(0, 5, 0); }, "arange: from 0 to 5 by 0: the step is 0");
  expect<ArgumentError>([] { arange(0, 5, 0.0); }, "arange: from 0 to 5 by 0: the step is 0");
  expect<ArgumentError>([] { arange(5, 0); },
                        "arange: from 5 to 0 by 1: the steps lead away from the end");
  expect<ArgumentError>([] { arange(0, 5, -1); },
                        "arange: from 0 to 5 by -1: the steps lead away from the end");
  expect<ArgumentError>([] { arange(0.5, 0.25); },
                        "arange: from 0.5 to 0.25 by 1: the steps lead away from the end");
  expect<ArgumentError>([] { arange(0, kNan); }, "arange: from 0 to nan by 1: not finite");
  expect<ArgumentError>([] { arange(kInf); }, "arange: from 0 to inf by 1: not finite");
  expect<ArgumentError>([] { arange(0, 1, 1e-300); },
                        "arange: from 0 to 1 by 1e-300: more than 2^63 - 1 numbers");
  expect<ArgumentError>([] { arange(-kHuge, kHuge); },
                        "arange: from -9223372036854775807 to 9223372036854775807 by 1: more than "
                        "2^63 - 1 numbers");
  expect<ArgumentError>([] { arange(kHuge - 1, kHuge - 2); },
                        "arange: from 9223372036854775806 to 9223372036854775805 by 1: the steps "
                        "lead away from the end");
  expect<ArgumentError>([] { arange(0, ~0ull); },
                        "arange: from 0 to 1.8446744073709552e+19 by 1: a number is past 2^63 - 1");
  expect<ArgumentError>([] { arange(0, 300, here(DType::u8)); }, "arange: 299 does not fit u8");
  expect<ArgumentError>([] { arange(-3, 3, here(DType::u8)); }, "arange: -3 does not fit u8");
  expect<ArgumentError>([] { arange(0, 5e9, 1e9, here(DType::i32)); },
                        "arange: 4000000000 does not fit i32");
  expect<DTypeError>([] { arange(5, here(std::nullopt, true)); },
                     "arange: expected a floating-point dtype for requires_grad, got i64");
  expect<ArgumentError>([] { linspace(0, 1, -1); }, "linspace: a count of -1 is negative");
  expect<ArgumentError>([] { linspace(0, kInf, 3); }, "linspace: from 0 to inf: not finite");
  expect<ArgumentError>([] { linspace(kNan, 1, 3); }, "linspace: from nan to 1: not finite");
  expect<ArgumentError>([] { linspace(0, 256, 3, here(DType::u8)); },
                        "linspace: 256 does not fit u8");
  expect<ArgumentError>([] { eye(-1); }, "eye: a size of [-1, -1] is negative");
  expect<ArgumentError>([] { eye(2, -3); }, "eye: a size of [2, -3] is negative");
}

TEST(CreationErrors, Random) {
  expect<DTypeError>([] { rand({2}, here(DType::u8)); },
                     "rand: expected a floating-point dtype, got u8");
  expect<DTypeError>([] { rand_like(zeros({2}, here(DType::i32))); },
                     "rand_like: expected a floating-point dtype, got i32");
  expect<DTypeError>([] { randn_like(zeros({2}, here(DType::i64))); },
                     "randn_like: expected a floating-point dtype, got i64");
  expect<DTypeError>([] { uniform_like(zeros({2}, here(DType::boolean)), 0, 1); },
                     "uniform_like: expected a floating-point dtype, got bool");
  expect<ArgumentError>([] { uniform({2}, -kInf, kInf); },
                        "uniform: from -inf to inf is not finite");
  expect<ArgumentError>([] { uniform({2}, -1e308, 1e308); },
                        "uniform: from -1e+308 to 1e+308 is not finite");
  expect<ArgumentError>([] { uniform_like(zeros({2}, here()), 2, 1); },
                        "uniform_like: low 2 is not at most high 1");
  expect<ArgumentError>([] { randint(0, {2}); }, "randint: [0, 0) is empty");
  expect<ArgumentError>([] { randint(7, 3, {2}); }, "randint: [7, 3) is empty");
  expect<ArgumentError>([] { randint_like(zeros({2}, here()), 5, 5); },
                        "randint_like: [5, 5) is empty");
  expect<ArgumentError>([] { randint(0, 257, {2}, here(DType::u8)); },
                        "randint: 256 does not fit u8");
  expect<ArgumentError>([] { randint(-1, 5, {2}, here(DType::u8)); },
                        "randint: -1 does not fit u8");
  expect<ArgumentError>([] { randint(0, 3, {2}, here(DType::boolean)); },
                        "randint: 2 does not fit bool");
  expect<ArgumentError>([] { randint(0, 5000, {2}, here(DType::f16)); },
                        "randint: 4999 does not fit f16");
  expect<ArgumentError>([] { randint(-1000, 5, {2}, here(DType::bf16)); },
                        "randint: -1000 does not fit bf16");
  expect<ArgumentError>([] { randint(0, 1 << 30, {2}, here(DType::f32)); },
                        "randint: 1073741823 does not fit f32");
  expect<ArgumentError>([] { randint(0, 3'000'000'000, {2}, here(DType::i32)); },
                        "randint: 2999999999 does not fit i32");
  expect<ArgumentError>([] { bernoulli({2}, -0.1); }, "bernoulli: p = -0.1 is not in [0, 1]");
  expect<ArgumentError>([] { bernoulli({2}, 1.5); }, "bernoulli: p = 1.5 is not in [0, 1]");
  expect<ArgumentError>([] { bernoulli({2}, kNan); }, "bernoulli: p = nan is not in [0, 1]");
  expect<ArgumentError>([] { bernoulli_like(zeros({2}, here()), 2); },
                        "bernoulli_like: p = 2 is not in [0, 1]");
  expect<DTypeError>([] { bernoulli(zeros({2}, here(DType::i32))); },
                     "bernoulli: expected floating-point probabilities, got i32");
  expect<DTypeError>([] { bernoulli({2}, 0.5, here(DType::boolean, true)); },
                     "bernoulli: expected a floating-point dtype for requires_grad, got bool");
  expect<ArgumentError>([] { dropout(ones({2}, here()), 1.5, true, Generator(1)); },
                        "dropout: p = 1.5 is not in [0, 1]");
  // A call that fails draws no numbers.
  const Generator generator(5);
  expect<ArgumentError>([&] { randint(3, 3, {2}, {.generator = generator}); },
                        "randint: [3, 3) is empty");
  EXPECT_EQ(generator.state().offset, 0u);
}

TEST(CreationErrors, Blobs) {
  const float memory[4] = {1, 2, 3, 4};
  const float* nothing = nullptr;
  expect<ArgumentError>([&] { from_blob(nothing, {2}); }, "from_blob: no memory for a tensor [2]");
  EXPECT_EQ(from_blob(nothing, {0, 2}).shape(), Shape({0, 2}));
  expect<ArgumentError>([&] { from_blob(memory, {2, 2}, {.strides = {1}}); },
                        "from_blob: 1 strides for a tensor [2, 2]");
  expect<ArgumentError>([&] { from_blob(memory, {4}, {.strides = {1, 1}}); },
                        "from_blob: 2 strides for a tensor [4]");
  expect<ArgumentError>([&] { from_blob(memory, {4}, {.strides = {kHuge}}); },
                        "from_blob: strides [9223372036854775807] of a tensor [4] reach past 2^60 "
                        "elements");
  expect<ShapeError>([&] { from_blob(memory, {2, -2}); }, "shape: size -2 is negative in [2, -2]");
  expect<ShapeError>([&] { from_blob(memory, {std::int64_t{1} << 61}); },
                     "from_blob: [2305843009213693952] of f32 takes more than 2^62 bytes");
  const std::int32_t whole[2] = {1, 2};
  expect<DTypeError>([&] { from_blob(whole, {2}, {.requires_grad = true}); },
                     "from_blob: expected a floating-point dtype for requires_grad, got i32");
}

TEST(CreationErrors, Spans) {
  expect<ArgumentError>([] { none.span<float>(); }, "span: this is not a tensor");
  expect<DTypeError>([] { zeros({2}).span<double>(); },
                     "span: the tensor is f32, not f64; convert it with to()");
  expect<DTypeError>([] { arange(2).span<std::int32_t>(); },
                     "span: the tensor is i64, not i32; convert it with to()");
  expect<DTypeError>([] { full({2}, true).span<std::uint8_t>(); },
                     "span: the tensor is bool, not u8; convert it with to()");
  if (test_device().is_cpu()) return;
  expect<DeviceError>(
      [] { zeros({2}, here()).span<float>(); },
      "span: the tensor is on " + to_string(test_device()) + "; copy it with to(Device::cpu())");
}

class DlpackErrors : public ::testing::Test {
 protected:
  DlpackErrors() {
    managed_.version = {1, 0};
    managed_.manager_ctx = &deleted_;
    managed_.deleter = [](DLManagedTensorVersioned* self) {
      ++*static_cast<int*>(self->manager_ctx);
    };
    managed_.dl_tensor = {memory_, {dlpack::kCpu, 0}, 1, {dlpack::kFloat, 32, 1},
                          shape_,  strides_,          0};
  }
  // Whatever is wrong, the tensor was taken over, so it is deleted once.
  template <class Exception>
  void refused(const std::string& message) {
    const int before = deleted_;
    expect<Exception>([&] { from_dlpack(&managed_); }, message);
    EXPECT_EQ(deleted_, before + 1) << message;
  }

  float memory_[4] = {1, 2, 3, 4};
  std::int64_t shape_[2] = {4, 1}, strides_[2] = {1, 1};
  int deleted_ = 0;
  DLManagedTensorVersioned managed_{};
};

TEST_F(DlpackErrors, AreClearAndDeleteWhatWasGiven) {
  expect<ArgumentError>([] { from_dlpack(static_cast<DLManagedTensor*>(nullptr)); },
                        "from_dlpack: no tensor");
  expect<ArgumentError>([] { to_dlpack(none); }, "to_dlpack: this is not a tensor");
  expect<ArgumentError>([] { to_dlpack_unversioned(none); }, "to_dlpack: this is not a tensor");
  managed_.version = {2, 1};
  refused<ArgumentError>("from_dlpack: a tensor of DLPack version 2.1; expected 1.x");
  managed_.version = {1, 9};  // more flags with the same layout
  DLTensor& tensor = managed_.dl_tensor;
  tensor.ndim = 9;
  refused<ShapeError>("from_dlpack: 9 axes, at most 8");
  tensor.ndim = -1;
  refused<ShapeError>("from_dlpack: -1 axes, at most 8");
  tensor.ndim = 1;
  shape_[0] = -4;
  refused<ShapeError>("shape: size -4 is negative in [-4]");
  shape_[0] = 4;
  tensor.dtype = {dlpack::kInt, 8, 1};
  refused<DTypeError>("from_dlpack: elements of type code 0, 8 bits, 1 lanes have no dtype here");
  tensor.dtype = {dlpack::kFloat, 32, 4};
  refused<DTypeError>("from_dlpack: elements of type code 2, 32 bits, 4 lanes have no dtype here");
  tensor.dtype = {dlpack::kFloat, 32, 1};
  tensor.device = {dlpack::kOpenCl, 0};
  refused<DeviceError>(
      "from_dlpack: OpenCL memory belongs to a context of its owner's; copy it to the CPU first");
  tensor.device = {dlpack::kCuda, 77};
  refused<DeviceError>("from_dlpack: " + why_unusable(DeviceType::cuda, 77));
  tensor.device = {8, 0};
  refused<DeviceError>("from_dlpack: memory of device type 8; expected the CPU (1, 3) or CUDA (2)");
  tensor.device = {dlpack::kCpu, 0};
  tensor.data = nullptr;
  refused<ArgumentError>("from_dlpack: no memory for a tensor [4]");
  tensor.data = memory_;
  strides_[0] = kHuge;
  refused<ArgumentError>(
      "from_dlpack: strides [9223372036854775807] of a tensor [4] reach past 2^60 elements");
  strides_[0] = 1;
  EXPECT_EQ(from_dlpack(&managed_).to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace volta::errors
