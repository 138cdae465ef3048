// The CPU backend: every sample program against the reference interpreter, special values against
// libm, products against plain double loops, and results that do not depend on the number of
// threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "backend/cpu/cpu_runner.h"
#include "backend/cpu/library/matmul.h"
#include "backend/cpu/vector/simd_table.h"
#include "backend/cpu_backend.h"
#include "core/counting.h"
#include "platform/parallel.h"
#include "volta/error.h"

namespace volta::testing {
namespace {

using kernel::ReduceOp;
using plan::BufferRef;

TEST(CpuBackend, SamplesMatchTheReference) {
  const auto backend = make_cpu_backend();
  for (const Sample& sample : samples()) check_sample(sample, *backend);
}

TEST(CpuBackend, SamplesMatchTheReferenceOnSeveralThreads) {
  const ThreadCount four(4);
  const auto backend = make_cpu_backend();
  for (const Sample& sample : samples()) check_sample(sample, *backend);
}

TEST(CpuBackend, BitsDoNotDependOnTheThreadCount) {
  expect_same_bits(resized(softmax_sample(1, 0), {20000, 10}, {200000, 200000}));
  expect_same_bits(resized(softmax_sample(32, 0), {700, 333}, {233100, 233100}));
  expect_same_bits(resized(softmax_sample(256, 0), {3, 70001}, {210003, 210003}));
  expect_same_bits(resized(column_sum_sample(), {300, 1000}, {300000, 1000}));
  expect_same_bits(
      resized(layer_norm_sample(64, 4), {500, 257}, {128500, 257, 257, 128500, 500, 500}));
  expect_same_bits(resized(elementwise_sample(1), {4001, 37}, {148037, 37, 148037, 148037}));
  expect_same_bits(
      resized(adam_sample(1, false), {100003}, {100003, 100003, 100003, 100003, 1, 1}));
  expect_same_bits(resized(dropout_sample(), {100003}, {100003, 100003, 100003, 100003}));
}

TEST(CpuBackend, LargeSizesMatchTheReference) {
  const auto backend = make_cpu_backend();
  const ThreadCount two(2);
  check_sample(resized(softmax_sample(1, 0), {1000, 10}, {10000, 10000}), *backend);
  check_sample(resized(softmax_sample(32, 0), {2, 40001}, {80002, 80002}),
               *backend);  // rows too long to keep
  check_sample(resized(softmax_sample(1, 0), {200, 500}, {100000, 100000}), *backend);  // and lanes
  check_sample(resized(layer_norm_sample(1, 0), {300, 33}, {9900, 33, 33, 9900, 300, 300}),
               *backend);
  check_sample(resized(column_sum_sample(), {3000, 40}, {120000, 40}), *backend);
  check_sample(resized(column_sum_sample(), {70, 3000}, {210000, 3000}), *backend);
  check_sample(resized(elementwise_sample(1), {500, 3}, {1500, 3, 1500, 1500}), *backend);
  check_sample(resized(elementwise_sample(1), {700, 1}, {700, 1, 700, 700}), *backend);
  check_sample(resized(elementwise_sample(1), {3, 700}, {2100, 700, 2100, 2100}), *backend);
  check_sample(resized(elementwise_sample(1), {200, 64}, {12800, 64, 12800, 12800}), *backend);
}

// The sum of a row is as accurate as a pairwise sum, far better than adding in order.
TEST(CpuBackend, LongSumsAreAccurate) {
  const std::int64_t n = 1 << 22;
  std::vector<float> x(static_cast<std::size_t>(n)), y(1);
  double exact = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::ldexp(static_cast<float>(kernel::philox(1, i)[0] >> 8), -24) + 1.0f;
    exact += x[i];
  }
  const auto backend = make_cpu_backend();
  for (const int lanes : {1, 256}) {
    Build b;
    b.axis(b.param());
    const int r = b.red(b.param());
    const int from = b.slot(DType::f32), to = b.slot(DType::f32);
    b.store(to, Build::at({}),
            b.reduce(ReduceOp::Sum, b.load(from, Build::at({{r, Build::one()}}))));
    OneKernel run(b.finish(row_schedule(lanes)));
    run.bind({1, n}, {x.data(), y.data()}, {});
    run.run(*backend);
    EXPECT_NEAR(y[0] / exact, 1.0, 1e-6) << "lanes " << lanes;
  }
}

// Loads and stores with every stride, forwards and backwards, in rows of every length.
TEST(CpuBackend, StridedLoadsAndStores) {
  const auto backend = make_cpu_backend();
  for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
    Build b;
    const auto rows = b.param(), columns = b.param(), offset = b.param();
    const auto row_in = b.param(), column_in = b.param(), row_out = b.param(),
               column_out = b.param();
    const int i = b.axis(rows), j = b.axis(columns);
    const int from = b.slot(dtype), to = b.slot(dtype);
    const int value = b.load(from, Build::at({{i, row_in}, {j, column_in}}, offset));
    b.store(to, Build::at({{i, row_out}, {j, column_out}}), value);
    Sample sample{.name = "strided_" + std::string(name_of(dtype)),
                  .program = b.finish(map_schedule())};
    for (const std::int64_t n : {1, 2, 7, 31, 32, 100, 129, 300}) {
      const std::int64_t m = 13, all = m * n;
      sample.bindings.push_back({{m, n, 0, n, 1, n, 1}, {all, all}, {}});  // copy
      sample.bindings.push_back({{m, n, 0, 1, m, n, 1}, {all, all}, {}});  // transpose
      sample.bindings.push_back({{m, n, 0, n, 1, 1, m}, {all, all}, {}});  // transpose by stores
      sample.bindings.push_back({{m, n, all - 1, -n, -1, n, 1}, {all, all}, {}});  // flip
      sample.bindings.push_back(
          {{m, n, 3, 0, 2, n, 1}, {2 * n + 4, all}, {}});  // expanded, every second element
      sample.bindings.push_back({{m, n, 1, 1, 0, n, 1}, {m + 1, all}, {}});  // one value per row
    }
    check_sample(sample, *backend);
  }
}

// Copies x[i, k, j] to y[i, j, k], with tiles that end where an outer axis does.
TEST(CpuBackend, BatchedTranspose) {
  Build b;
  const auto p = b.param(), q = b.param(), r = b.param(), area = b.param();
  const int i = b.axis(p), j = b.axis(q), k = b.axis(r);
  const int x = b.slot(DType::f32), y = b.slot(DType::f32);
  const int value = b.load(x, Build::at({{i, area}, {j, Build::one()}, {k, q}}));
  b.store(y, Build::at({{i, area}, {j, r}, {k, Build::one()}}), value);
  Sample sample{.name = "batched_transpose", .program = b.finish(map_schedule())};
  for (const std::int64_t rows : {2, 7, 16, 40}) {
    const std::int64_t area_of = rows * 300, all = 5 * area_of;
    sample.bindings.push_back({{5, rows, 300, area_of}, {all, all}, {}});
  }
  const auto backend = make_cpu_backend();
  check_sample(sample, *backend);
  const ThreadCount three(3);
  check_sample(sample, *backend);
}

// Sums over windows of a padded row: masks with steps other than one, in modes Lanes and Rows.
TEST(CpuBackend, MaskedWindows) {
  const auto backend = make_cpu_backend();
  for (const int lanes : {1, 32}) {
    Build b;
    const auto outputs = b.param(), window = b.param(), step = b.param(), pad = b.param(),
               length = b.param();
    const int i = b.axis(outputs), r = b.red(window);
    const int x = b.slot(DType::f32), y = b.slot(DType::f32), z = b.slot(DType::f32);
    const auto here = Build::at({{i, step}, {r, ProgramBuilder::Int::literal(-1)}}, pad);
    const int value = b.load(x, here, {{here, length}}, 0.25);
    b.store(y, Build::at({{i, Build::one()}}), b.reduce(ReduceOp::Sum, value));
    b.store(z, Build::at({{i, window}, {r, Build::one()}}), value, {{here, length}});
    Sample sample{.name = "windows" + row_suffix(lanes, 0),
                  .program = b.finish(row_schedule(lanes))};
    for (const std::int64_t n : {1, 5, 40, 200}) {
      sample.bindings.push_back({{n, 7, 3, 4, 3 * n}, {3 * n, n, 7 * n}, {}});
      sample.bindings.push_back({{n, 150, 1, 20, n}, {n, n, 150 * n}, {}});
    }
    check_sample(sample, *backend);
  }
}

// An output at the address of a leaf: every value is read before its memory is overwritten.
TEST(CpuBackend, DonatedMemory) {
  Build b;
  const int i = b.axis(b.param());
  const auto here = Build::at({{i, Build::one()}});
  const int p = b.slot(DType::f32), q = b.slot(DType::f32), twice = b.slot(DType::f32),
            sum = b.slot(DType::f32);
  const int a = b.load(p, here), c = b.load(q, here);
  b.store(twice, here, b.op(Op::add, a, a));  // over p
  b.store(sum, here, b.op(Op::mul, a, c));    // over q
  const kernel::Program program = b.finish(map_schedule());
  const auto backend = make_cpu_backend();
  for (const std::size_t n : {5, 128, 1000}) {
    std::vector<float> x(n), y(n);
    for (std::size_t k = 0; k < n; ++k)
      x[k] = static_cast<float>(k), y[k] = static_cast<float>(k % 7);
    OneKernel run(program);
    run.bind({static_cast<std::int64_t>(n)}, {x.data(), y.data(), x.data(), y.data()}, {});
    run.run(*backend);
    for (std::size_t k = 0; k < n; ++k) {
      EXPECT_EQ(x[k], 2.0f * static_cast<float>(k));
      EXPECT_EQ(y[k], static_cast<float>(k * (k % 7)));
    }
  }
}

TEST(CpuBackend, OneCompilationPerProgramText) {
  const auto backend = make_cpu_backend();
  const Sample sample = column_sum_sample();
  std::vector<Bytes> buffers = make_buffers(sample, sample.bindings[0]);
  OneKernel run(sample.program);
  run.bind(sample.bindings[0].ints, pointers(buffers), {});
  const std::uint64_t before = live_counters().compilations, launches = live_counters().launches;
  run.run(*backend);
  run.run(*backend);
  EXPECT_EQ(live_counters().compilations, before + 1);
  EXPECT_EQ(live_counters().launches, launches + 2);
}

TEST(CpuBackend, DeviceAndMemory) {
  const auto backend = make_cpu_backend();
  EXPECT_EQ(backend->device_count(), 1);
  EXPECT_FALSE(backend->device_name(0).empty());
  EXPECT_FALSE(backend->device_is_gpu(0));
  EXPECT_GT(backend->device_memory(0), 0u);
  const Address memory = backend->allocate(0, 1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.pointer()) % 256, 0u);
  const std::vector<int> from = {1, 2, 3};
  std::vector<int> to(3);
  backend->upload(0, memory, from.data(), 12);
  backend->copy(0, {memory.base, 256}, memory, 12);
  backend->download(0, to.data(), {memory.base, 256}, 12);
  EXPECT_EQ(from, to);
  backend->release(0, memory);
  EXPECT_EQ(backend->allocate(0, SIZE_MAX / 2).base, nullptr);
}

// ---- Scalar functions.

// Values are equal including the sign of zero; finite ones differ by a few units in the last place.
template <class T>
bool agree(T want, T got) {
  if (std::isnan(want)) return std::isnan(got);
  if (want == got) return std::signbit(want) == std::signbit(got);
  return std::isfinite(want) &&
         std::fabs(want - got) <= 3 * std::numeric_limits<T>::epsilon() * std::fabs(want);
}

template <class T>
void check_special_values() {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> special = {T{0},
                                  T{-0.0},
                                  Limits::infinity(),
                                  -Limits::infinity(),
                                  Limits::quiet_NaN(),
                                  Limits::denorm_min(),
                                  -Limits::denorm_min(),
                                  Limits::max(),
                                  Limits::lowest(),
                                  T{1},
                                  T{-1},
                                  Limits::min() / 4,
                                  T(1e-5),
                                  T{-2},
                                  T{0.5},
                                  T{3}};
  T in[64] = {}, other[64] = {}, out[64];
  std::copy(special.begin(), special.end(), in);
  for (const Op op : {Op::neg, Op::abs, Op::sign, Op::exp, Op::expm1, Op::log, Op::log1p, Op::sqrt,
                      Op::rsqrt, Op::sin, Op::cos, Op::tanh, Op::erf, Op::floor}) {
    cpu::simd().scalar(op, dtype_of<T>::value)(out, in, nullptr, nullptr, special.size());
    for (std::size_t k = 0; k < special.size(); ++k) {
      const T want = static_cast<T>(float_op(op, in[k], 0));
      const bool zero = op == Op::sign && want == 0;  // sign(-0) may have either sign
      EXPECT_TRUE(zero ? out[k] == 0 : agree(want, out[k]))
          << kernel::info(op).name << "(" << in[k] << ") = " << out[k] << ", want " << want;
    }
  }
  for (const T y : special) {
    std::fill(std::begin(other), std::end(other), y);
    for (const Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::pow, Op::maximum, Op::minimum}) {
      cpu::simd().scalar(op, dtype_of<T>::value)(out, in, other, nullptr, special.size());
      for (std::size_t k = 0; k < special.size(); ++k) {
        const T want = op == Op::pow ? std::pow(in[k], y) : static_cast<T>(float_op(op, in[k], y));
        EXPECT_TRUE(agree(want, out[k])) << kernel::info(op).name << "(" << in[k] << ", " << y
                                         << ") = " << out[k] << ", want " << want;
      }
    }
    for (const Op op :
         {Op::lt, Op::le, Op::eq, Op::ne, Op::logical_and, Op::logical_or, Op::logical_not}) {
      std::uint8_t truth[64];
      cpu::simd().scalar(op, dtype_of<T>::value)(truth, in, other, nullptr, special.size());
      for (std::size_t k = 0; k < special.size(); ++k) {
        EXPECT_EQ(truth[k], truth_op(op, in[k], y))
            << kernel::info(op).name << "(" << in[k] << ", " << y << ")";
      }
    }
  }
}

TEST(CpuFunctions, SpecialValues) {
  check_special_values<float>();
  check_special_values<double>();
}

TEST(CpuFunctions, HalfConversionsRoundToNearestEven) {
  const auto& casts = cpu::simd().cast;
  const int f32 = static_cast<int>(DType::f32), f16 = static_cast<int>(DType::f16);
  const int bf16 = static_cast<int>(DType::bf16);
  for (std::uint32_t high = 0; high < 0x10000; high += 64) {
    std::uint16_t bits[64], back[64], brain[64];
    float wide[64], between[64];
    for (std::uint32_t k = 0; k < 64; ++k) bits[k] = static_cast<std::uint16_t>(high + k);
    casts[f16][f32](wide, bits, nullptr, nullptr, 64);
    casts[f32][f16](back, wide, nullptr, nullptr, 64);
    for (std::uint32_t k = 0; k < 64; ++k) {
      const double want = half_to_double(bits[k]);
      ASSERT_TRUE(std::isnan(want) ? std::isnan(wide[k]) : wide[k] == want) << bits[k];
      if (!std::isnan(want)) {
        ASSERT_EQ(back[k], bits[k]);
      }
      between[k] = std::bit_cast<float>((high + k) << 16 | 0x8000u * (k & 1) | (k & 2));
    }
    casts[f32][f16](back, between, nullptr, nullptr, 64);
    casts[f32][bf16](brain, between, nullptr, nullptr, 64);
    for (std::uint32_t k = 0; k < 64; ++k) {
      if (std::isnan(between[k])) continue;
      ASSERT_EQ(back[k], double_to_half(between[k])) << between[k];
      ASSERT_EQ(brain[k], double_to_bfloat(between[k])) << between[k];
    }
  }
}

// ---- Products.

struct Product {
  plan::MatmulStep step;
  std::int64_t a_elements, b_elements, c_elements;
};

// The distance between rows is `pad` elements larger than necessary; operands start at element
// `pad`.
Product make_product(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                     std::int64_t batch, bool ta, bool tb, std::int64_t pad, bool share_b) {
  Product result;
  plan::MatmulStep& s = result.step;
  s.dtype = dtype;
  s.m = m;
  s.n = n;
  s.k = k;
  s.batch = batch;
  s.transpose_a = ta;
  s.transpose_b = tb;
  s.lda = (ta ? m : k) + pad;
  s.ldb = (tb ? k : n) + pad;
  s.ldc = n + pad;
  s.stride_a = (ta ? k : m) * s.lda + pad;
  s.stride_b = share_b ? 0 : (tb ? n : k) * s.ldb;
  s.stride_c = m * s.ldc;
  s.offset_a = s.offset_b = pad;
  s.a = {BufferRef::Kind::Leaf, 0, 0};
  s.b = {BufferRef::Kind::Leaf, 1, 0};
  s.c = {BufferRef::Kind::Output, 0, 0};
  result.a_elements = pad + batch * s.stride_a + 1;
  result.b_elements =
      pad + std::max<std::int64_t>(1, share_b ? 1 : batch) * (tb ? n : k) * s.ldb + 1;
  result.c_elements = batch * s.stride_c + 1;
  return result;
}

template <class T>
std::vector<T> random_values(std::uint64_t seed, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] =
        static_cast<T>(std::ldexp(static_cast<double>(kernel::philox(seed, i)[0]), -31) - 1);
  }
  return values;
}

template <class T>
std::vector<T> run_product(const Product& product, const std::vector<T>& a,
                           const std::vector<T>& b) {
  plan::PlanSteps steps;
  steps.steps.emplace_back(product.step);
  std::vector<T> c(static_cast<std::size_t>(product.c_elements), T{7});
  const std::vector<Address> leaves = {{const_cast<T*>(a.data()), 0},
                                       {const_cast<T*>(b.data()), 0}};
  const std::vector<Address> outputs = {{c.data(), 0}};
  make_cpu_backend()->prepare(0, steps)->run(leaves, outputs, {}, {});
  return c;
}

template <class T>
void check_product(const Product& product) {
  const plan::MatmulStep& s = product.step;
  const auto a = random_values<T>(1, product.a_elements),
             b = random_values<T>(2, product.b_elements);
  const std::vector<T> c = run_product(product, a, b);
  const double tolerance =
      (sizeof(T) == 4 ? 2e-6 : 1e-14) * std::sqrt(static_cast<double>(s.k) + 1);
  for (std::int64_t batch = 0; batch < s.batch; ++batch) {
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        double want = 0;
        for (std::int64_t p = 0; p < s.k; ++p) {
          const std::int64_t ia = s.transpose_a ? p * s.lda + i : i * s.lda + p;
          const std::int64_t ib = s.transpose_b ? j * s.ldb + p : p * s.ldb + j;
          want += static_cast<double>(
                      a[static_cast<std::size_t>(s.offset_a + batch * s.stride_a + ia)]) *
                  static_cast<double>(
                      b[static_cast<std::size_t>(s.offset_b + batch * s.stride_b + ib)]);
        }
        const T got = c[static_cast<std::size_t>(batch * s.stride_c + i * s.ldc + j)];
        ASSERT_NEAR(got, want, tolerance) << s.m << " x " << s.n << " x " << s.k << " batch "
                                          << batch << " at " << i << ", " << j;
      }
    }
  }
  // The memory between the rows of C is unchanged.
  if (s.ldc > s.n && s.m > 0) {
    ASSERT_EQ(c[static_cast<std::size_t>(s.n)], T{7});
  }
}

TEST(CpuMatmul, MatchesTheReference) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const std::int64_t pad : {0, 3}) {
        check_product<float>(make_product(DType::f32, 17, 33, 29, 1, ta, tb, pad, false));
        check_product<float>(make_product(DType::f32, 5, 40, 64, 3, ta, tb, pad, false));
        check_product<float>(make_product(DType::f32, 6, 7, 8, 4, ta, tb, pad, true));
        check_product<float>(make_product(DType::f32, 250, 210, 400, 1, ta, tb, pad, false));
        check_product<float>(make_product(DType::f32, 1, 300, 100, 1, ta, tb, pad, false));
        check_product<float>(make_product(DType::f32, 300, 1, 100, 1, ta, tb, pad, false));
        // Tall products are packed, thin ones transposed, long sums split.
        check_product<float>(make_product(DType::f32, 300, 192, 96, 1, ta, tb, pad, false));
        check_product<float>(make_product(DType::f32, 450, 100, 70, 1, ta, tb, pad, false));
        check_product<float>(make_product(DType::f32, 100, 10, 64, 3, ta, tb, pad, false));
        check_product<float>(make_product(DType::f32, 70, 3, 50, 4, ta, tb, pad, true));
        check_product<float>(make_product(DType::f32, 20, 24, 9001, 1, ta, tb, pad, false));
        check_product<double>(make_product(DType::f64, 17, 33, 29, 2, ta, tb, pad, false));
        check_product<double>(make_product(DType::f64, 100, 260, 300, 1, ta, tb, pad, true));
      }
    }
  }
  check_product<float>(make_product(DType::f32, 4, 5, 0, 1, false, false, 0, false));
  check_product<float>(make_product(DType::f32, 0, 5, 3, 1, false, false, 0, false));
  check_product<double>(make_product(DType::f64, 1, 1, 1, 1, false, false, 0, false));
}

TEST(CpuMatmul, GenericProductMatchesOneDnn) {
  const Product product = make_product(DType::f32, 130, 270, 520, 1, false, true, 0, false);
  const auto a = random_values<float>(1, product.a_elements),
             b = random_values<float>(2, product.b_elements);
  const std::vector<float> expected = run_product(product, a, b);
  std::vector<float> c(expected.size(), 7);
  cpu::make_generic_matmul(product.step)->run(a.data(), b.data(), c.data(), nullptr);
  for (std::size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], expected[i], 1e-4);
}

TEST(CpuMatmul, BitsDoNotDependOnTheThreadCount) {
  struct Shape {
    std::int64_t m, n, k, batch;
    bool ta, tb;
  };
  const Shape shapes[] = {{10, 784, 6000, 1, true, false},  {784, 10, 6000, 1, true, false},
                          {8, 8, 100000, 1, false, false},  {1024, 256, 128, 1, false, true},
                          {1, 1000, 4000, 1, false, false}, {100, 100, 2048, 1, false, false},
                          {64, 64, 1024, 8, false, false},  {8, 128, 1000, 4, true, false},
                          {16, 16, 16, 100, false, true},   {400, 12, 300, 1, false, false},
                          {64, 64, 20000, 1, false, true},  {600, 192, 96, 1, true, false},
                          {600, 100, 300, 1, false, true}};
  for (const Shape& s : shapes) {
    const Product product = make_product(DType::f32, s.m, s.n, s.k, s.batch, s.ta, s.tb, 0, false);
    const auto a = random_values<float>(1, product.a_elements),
               b = random_values<float>(2, product.b_elements);
    std::vector<std::vector<float>> results, generic;
    for (const int threads : {1, 2, 4}) {
      const ThreadCount count(threads);
      results.push_back(run_product(product, a, b));
      generic.emplace_back(results[0].size(), 7.0f);
      cpu::make_generic_matmul(product.step)
          ->run(a.data(), b.data(), generic.back().data(), nullptr);
    }
    for (const std::size_t other : {1, 2}) {
      EXPECT_EQ(results[0], results[other]) << s.m << " x " << s.n << " x " << s.k;
      EXPECT_EQ(generic[0], generic[other]) << s.m << " x " << s.n << " x " << s.k;
    }
  }
}

// ---- Parallel loops.

TEST(Parallel, CoversEveryIndexOnce) {
  for (const int threads : {1, 2, 4, 7}) {
    const ThreadCount count(threads);
    for (const std::int64_t n : {0, 1, 5, 64, 1000}) {
      std::vector<int> hits(static_cast<std::size_t>(n), 0);
      platform::parallel_for(n, 3, [&](std::int64_t begin, std::int64_t end) {
        // A nested loop runs on the same thread.
        platform::parallel_for(end - begin, 1, [&](std::int64_t from, std::int64_t to) {
          for (std::int64_t i = from; i < to; ++i) ++hits[static_cast<std::size_t>(begin + i)];
        });
      });
      EXPECT_TRUE(std::all_of(hits.begin(), hits.end(), [](int h) { return h == 1; }));
    }
  }
}

}  // namespace
}  // namespace volta::testing
