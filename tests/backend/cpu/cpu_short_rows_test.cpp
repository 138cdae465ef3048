// Rows that are too short for blocks of their own on the CPU: consecutive rows of a Map, and
// adjacent Red points of columns.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/cpu_runner.h"

namespace volta::testing {
namespace {

using kernel::ReduceOp;

constexpr std::int64_t kLengths[] = {1, 2, 3, 16, 31, 48, 64, 100, 128, 300, 512, 513, 1100};

// For x[i, j], a mean and a weight of j: values that depend only on j, are computed from each other
// early and late, are used by sums, products and selections, and are stored.
Sample scaled_rows(DType storage) {
  Build b;
  const auto rows = b.param(), length = b.param();
  const int i = b.axis(rows), j = b.axis(length);
  const int x = b.slot(storage), by_row = b.slot(DType::f32), y = b.slot(storage),
            copied = b.slot(DType::f32);
  const auto here = Build::at({{i, length}, {j, Build::one()}});
  const auto row = [&](int number) {
    const auto offset = number == 0 ? kernel::Int{} : length;
    return b.load(by_row, Build::at({{j, Build::one()}}, offset));
  };
  const int mean = row(0), w = row(1);
  const int variance = b.op(Op::mul, w, w);
  const int spread = b.op(Op::rsqrt, b.op(Op::add, variance, b.constant(DType::f32, 0.5)));
  const int scale = b.op(Op::mul, spread, w);
  int value = b.load(x, here);
  if (storage != DType::f32) value = b.cast(value, DType::f32);
  const int shifted = b.op(Op::mul, b.op(Op::sub, value, mean), scale);
  const int kept = b.op(Op::maximum, b.op(Op::add, shifted, mean), b.constant(DType::f32, 0));
  const int small = b.op(Op::lt, kept, b.constant(DType::f32, 2));
  const int late = b.op(Op::sub, b.op(Op::mul, w, spread), mean);
  int result = b.op(Op::where, small, b.op(Op::mul, kept, late), b.op(Op::mul, late, late));
  if (storage != DType::f32) result = b.cast(result, storage);
  b.store(y, here, result);
  b.store(copied, here, scale);
  return {.name = "scaled_rows " + std::string(name_of(storage)),
          .program = b.finish({}),
          .tolerance = storage == DType::f32 ? 2e-5 : 9e-3};
}

TEST(CpuShortRows, OfMapsMatchTheReference) {
  const auto backend = make_cpu_backend();
  for (const DType storage : {DType::f32, DType::bf16}) {
    Sample sample = scaled_rows(storage);
    for (const std::int64_t length : kLengths) {
      for (const std::int64_t rows : {1, 2, 7, 333}) {
        const std::int64_t n = rows * length;
        sample.bindings = {{{rows, length}, {n, 2 * length, n, n}, {}}};
        SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(length));
        check_sample(sample, *backend);
      }
    }
  }
}

// For x[c, r, j] reduced over r: the sum, the sum of squares, the largest value, the smallest value
// of x - k[j]; then x minus its mean, and the largest distance from the mean.
Sample columns(DType storage, DType inner) {
  Build b;
  const auto chunks = b.param(), points = b.param(), length = b.param(), chunk = b.param();
  const int c = b.axis(chunks), j = b.axis(length), r = b.red(points);
  const int x = b.slot(storage), from = b.slot(inner), share = b.arg(inner);
  const auto here = Build::at({{c, chunk}, {j, Build::one()}, {r, length}});
  const auto result = Build::at({{c, length}, {j, Build::one()}});
  int value = b.load(x, here);
  if (storage != inner) value = b.cast(value, inner);
  const int d = b.op(Op::sub, value, b.load(from, Build::at({{j, Build::one()}})));
  const int sum = b.reduce(ReduceOp::Sum, d);
  b.store(b.slot(inner), result, sum);
  b.store(b.slot(inner), result, b.reduce(ReduceOp::Sum, b.op(Op::mul, d, d)));
  b.store(b.slot(inner), result, b.reduce(ReduceOp::Max, d));
  b.store(b.slot(inner), result, b.reduce(ReduceOp::Min, d));
  const int centred = b.op(Op::sub, d, b.op(Op::mul, sum, share));
  b.store(b.slot(inner), result, b.reduce(ReduceOp::Max, b.op(Op::abs, centred)));
  b.store(b.slot(inner), here, centred);
  return {.name = "columns " + std::string(name_of(storage)),
          .program = b.finish(row_schedule(1)),
          .tolerance = 5e-4};
}

std::vector<SampleBinding> column_sizes() {
  std::vector<SampleBinding> bindings;
  for (const std::int64_t length : kLengths) {
    for (const std::int64_t points : {1, 2, 9, 64, 500, 2500}) {
      const std::int64_t chunks = 3, n = chunks * points * length, results = chunks * length;
      if (n > 500'000) continue;
      bindings.push_back({{chunks, points, length, points * length},
                          {n, length, results, results, results, results, results, n},
                          {float_arg(1.0 / static_cast<double>(points))}});
    }
  }
  return bindings;
}

TEST(CpuShortRows, OfColumnsMatchTheReference) {
  const auto backend = make_cpu_backend();
  for (Sample sample : {columns(DType::f32, DType::f32), columns(DType::f64, DType::f64),
                        columns(DType::bf16, DType::f32)}) {
    for (const SampleBinding& binding : column_sizes()) {
      SCOPED_TRACE(std::to_string(binding.ints[1]) + " points of " +
                   std::to_string(binding.ints[2]));
      sample.bindings = {binding};
      check_sample(sample, *backend);
    }
  }
}

TEST(CpuShortRows, BitsDoNotDependOnTheThreadCount) {
  expect_same_bits(resized(scaled_rows(DType::f32), {4001, 48}, {192048, 96, 192048, 192048}));
  Sample sample = columns(DType::f32, DType::f32);
  for (const SampleBinding& binding : column_sizes()) {
    if (binding.ints[1] < 500 || binding.ints[2] > 100) continue;
    sample.bindings = {binding};
    expect_same_bits(sample);
  }
}

// If some Red points are read from elsewhere, through a mask or another stride, they are processed
// one by one.
TEST(CpuShortRows, ColumnsThatDoNotAdjoin) {
  const auto backend = make_cpu_backend();
  Build b;
  const auto points = b.param(), length = b.param(), stride = b.param(), valid = b.param();
  const int j = b.axis(length), r = b.red(points);
  const int x = b.slot(DType::f32), other = b.slot(DType::f32), y = b.slot(DType::f32);
  const int apart = b.load(x, Build::at({{j, Build::one()}, {r, stride}}));
  const int masked = b.load(other, Build::at({{j, Build::one()}, {r, length}}),
                            {{Build::at({{r, Build::one()}}), valid}}, 2);
  b.store(y, Build::at({{j, Build::one()}}),
          b.reduce(ReduceOp::Sum, b.op(Op::mul, b.op(Op::abs, apart), masked)));
  Sample sample{.name = "apart", .program = b.finish(row_schedule(1)), .tolerance = 1e-4};
  sample.bindings = {{{300, 64, 70, 100}, {300 * 70, 100 * 64, 64}, {}}};
  check_sample(sample, *backend);
}

// The sum of many short rows is as accurate as a pairwise sum.
TEST(CpuShortRows, LongSumsAreAccurate) {
  constexpr std::int64_t kPoints = 1 << 18, kLength = 16;
  std::vector<float> x(kPoints * kLength), k(kLength, 0.0F);
  std::vector<double> exact(kLength, 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::ldexp(static_cast<float>(kernel::philox(1, i)[0] >> 8), -24) + 1.0F;
    exact[i % kLength] += static_cast<double>(x[i]);
  }
  Build b;
  const auto points = b.param(), length = b.param();
  const int j = b.axis(length), r = b.red(points);
  const int from = b.slot(DType::f32), less = b.slot(DType::f32), to = b.slot(DType::f32);
  const int d = b.op(Op::sub, b.load(from, Build::at({{j, Build::one()}, {r, length}})),
                     b.load(less, Build::at({{j, Build::one()}})));
  b.store(to, Build::at({{j, Build::one()}}), b.reduce(ReduceOp::Sum, d));
  std::vector<float> sums(kLength);
  OneKernel run(b.finish(row_schedule(1)));
  run.bind({kPoints, kLength}, {x.data(), k.data(), sums.data()}, {});
  run.run(*make_cpu_backend());
  for (std::size_t i = 0; i < kLength; ++i)
    EXPECT_NEAR(static_cast<double>(sums[i]) / exact[i], 1, 1e-6);
}

}  // namespace
}  // namespace volta::testing
