// Products of the CUDA backend, compared with sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/cuda_backend_testing.h"
#include "core/counting.h"
#include "kernel/kernel_reference.h"
#include "kernel/kernel_samples.h"

namespace volta::testing {
namespace {

// Fills a matrix operand and remembers its values in double.
struct Operand {
  std::vector<double> values;
  Address address;
};
Operand make_operand(Memory& memory, Backend& backend, DType dtype, std::int64_t elements,
                     std::uint64_t seed) {
  Operand operand;
  Bytes bytes(static_cast<std::size_t>(elements) * size_of(dtype));
  for (std::int64_t e = 0; e < elements; ++e) {
    const auto word = kernel::philox(seed, static_cast<std::uint64_t>(e))[0];
    write_element(bytes.data(), e, dtype, {.f = std::ldexp(word >> 8, -23) - 1, .i = word % 7});
    const Value value = read_element(bytes.data(), e, dtype);
    operand.values.push_back(is_floating(dtype) ? value.f : static_cast<double>(value.i));
  }
  operand.address = memory.take(bytes.size());
  backend.upload(0, operand.address, bytes.data(), bytes.size());
  return operand;
}

// Runs a product three times and compares it with sums in double. Strides default to those of
// compact matrices.
void check_matmul(Backend& backend, plan::MatmulStep step, double tolerance) {
  Memory memory(backend);
  if (step.lda == 0) step.lda = step.transpose_a ? step.m : step.k;
  if (step.ldb == 0) step.ldb = step.transpose_b ? step.k : step.n;
  if (step.ldc == 0) step.ldc = step.n;
  if (step.batch > 1 && step.stride_c == 0) step.stride_c = step.m * step.ldc;
  const auto extent = [&](std::int64_t stride, std::int64_t rows, std::int64_t ld,
                          std::int64_t offset) {
    return offset + (step.batch - 1) * stride + rows * ld;
  };
  const Operand a = make_operand(
      memory, backend, step.dtype,
      extent(step.stride_a, step.transpose_a ? step.k : step.m, step.lda, step.offset_a), 1);
  const Operand b = make_operand(
      memory, backend, step.dtype,
      extent(step.stride_b, step.transpose_b ? step.n : step.k, step.ldb, step.offset_b), 2);
  const std::int64_t elements = extent(step.stride_c, step.m, step.ldc, 0);
  step.a = leaf(0);
  step.b = leaf(1);
  step.c = output(0);
  step.label = "matmul";
  plan::PlanSteps steps;
  steps.steps = {step};
  steps.leaf_bytes = {a.values.size() * size_of(step.dtype), b.values.size() * size_of(step.dtype)};
  steps.output_bytes = {static_cast<std::uint64_t>(elements) * size_of(step.dtype)};
  const auto executable = backend.prepare(0, steps);
  const Address c = memory.take(steps.output_bytes[0]);
  for (int run = 0; run < 3; ++run)
    executable->run(std::array{a.address, b.address}, std::array{c}, {}, {});
  const Bytes bytes = memory.get<std::byte>(c, steps.output_bytes[0]);
  const auto at = [](const std::vector<double>& values, std::int64_t index) {
    return values[static_cast<std::size_t>(index)];
  };
  double worst = 0;
  for (std::int64_t batch = 0; batch < step.batch; ++batch) {
    const std::int64_t base_a = step.offset_a + batch * step.stride_a,
                       base_b = step.offset_b + batch * step.stride_b;
    for (std::int64_t i = 0; i < step.m; ++i) {
      for (std::int64_t j = 0; j < step.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < step.k; ++k) {
          sum += at(a.values, base_a + (step.transpose_a ? k * step.lda + i : i * step.lda + k)) *
                 at(b.values, base_b + (step.transpose_b ? j * step.ldb + k : k * step.ldb + j));
        }
        const Value got =
            read_element(bytes.data(), batch * step.stride_c + i * step.ldc + j, step.dtype);
        worst = std::fmax(
            worst, std::fabs(sum - (is_floating(step.dtype) ? got.f : static_cast<double>(got.i))));
      }
    }
  }
  EXPECT_LE(worst, tolerance * std::sqrt(static_cast<double>(std::max<std::int64_t>(step.k, 1))))
      << name_of(step.dtype) << " " << step.transpose_a << step.transpose_b << " " << step.m << "x"
      << step.n << "x" << step.k << " batch " << step.batch << " tf32 " << step.tf32;
}

double matmul_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 1e-3;
    case DType::bf16:
      return 8e-3;
    case DType::f64:
      return 1e-14;
    case DType::f32:
      return 4e-6;
    default:
      return 0;
  }
}

TEST_F(CudaBackend, ProductsOfEveryDTypeAndTranspose) {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        plan::MatmulStep step;
        step.dtype = dtype;
        step.transpose_a = transpose_a;
        step.transpose_b = transpose_b;
        step.m = 33, step.n = 47, step.k = 129;
        check_matmul(backend(), step, matmul_tolerance(dtype));
        step.m = 64, step.n = 128, step.k = 256;
        check_matmul(backend(), step, matmul_tolerance(dtype));
        step.m = 5, step.n = 6, step.k = 7, step.batch = 3;
        step.stride_a = 35, step.stride_b = 42;
        check_matmul(backend(), step, matmul_tolerance(dtype));
      }
    }
  }
}

TEST_F(CudaBackend, ProductsWithOddStridesAndOffsets) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double tolerance = matmul_tolerance(dtype);
    const auto check = [&](auto set) {
      plan::MatmulStep step;
      step.dtype = dtype;
      step.m = 40, step.n = 24, step.k = 56;
      set(step);
      check_matmul(backend(), step, tolerance);
    };
    check([](auto& s) { s.offset_a = 1, s.offset_b = 3; });
    check([](auto& s) { s.lda = 61, s.ldb = 31, s.ldc = 29; });
    check([](auto& s) { s.batch = 4, s.stride_b = 24 * 56; });  // A shared by the batch
    check([](auto& s) { s.batch = 4, s.stride_a = 40 * 56, s.offset_b = 8; });
    check([](auto& s) { s.m = 1; });
    check([](auto& s) { s.n = 1; });
    check([](auto& s) { s.k = 1; });
    check([](auto& s) { s.k = 0, s.lda = 1, s.ldb = 24; });  // sums of no elements
    check([](auto& s) { s.m = 0; });
    check([](auto& s) { s.n = 0, s.ldb = 1, s.ldc = 1; });
  }
}

TEST_F(CudaBackend, SinglePrecisionIsTrueUnlessTf32IsAsked) {
  plan::MatmulStep step;
  step.m = step.n = 128;
  step.k = 1024;
  check_matmul(backend(), step, 4e-6);
  step.tf32 = true;
  check_matmul(backend(), step, 2e-3);
}

TEST_F(CudaBackend, ProductsAreCountedAndReplayed) {
  plan::PlanSteps steps;
  plan::MatmulStep step;
  step.m = step.n = step.k = 64;
  step.lda = step.ldb = step.ldc = 64;
  step.a = leaf(0), step.b = leaf(0), step.c = temp(0);
  steps.steps = {step};
  step.a = temp(0), step.c = output(0);
  steps.steps.emplace_back(step);
  steps.leaf_bytes = steps.output_bytes = {4 * 64 * 64};
  steps.arena_bytes = 4 * 64 * 64;
  const auto executable = backend().prepare(0, steps);
  std::vector<float> identity(64 * 64, 0);
  for (std::size_t i = 0; i < 64; ++i) identity[i * 65] = 2;
  const Address x = memory().put(identity), y = memory().take(4 * 64 * 64),
                arena = memory().take(4 * 64 * 64);
  const auto& counters = live_counters();
  const auto calls = counters.library_calls.load() + counters.launches.load();
  for (int run = 0; run < 5; ++run) executable->run(std::array{x}, std::array{y}, arena, {});
  EXPECT_EQ(counters.library_calls.load() + counters.launches.load() - calls, 10u);
  EXPECT_EQ(memory().get<float>(y, 1)[0], 8);
}

}  // namespace
}  // namespace volta::testing
