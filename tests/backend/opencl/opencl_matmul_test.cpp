// Products of the OpenCL backend, compared with products in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/opencl/opencl_backend_testing.h"
#include "core/counting.h"
#include "kernel/kernel_reference.h"

namespace volta::testing {
namespace {

struct MatmulCase {
  DType dtype = DType::f32;
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool share_b = false;
  std::int64_t padding = 0;  // additional elements in each row
  double tolerance = 1e-4;
};

// Runs the product with values in [-1, 1] and compares every element with a product in double.
void check_matmul(Backend& backend, const MatmulCase& c) {
  SCOPED_TRACE(::testing::Message()
               << c.dtype << " " << c.m << "x" << c.k << "x" << c.n << " batch " << c.batch
               << (c.transpose_a ? " a^T" : "") << (c.transpose_b ? " b^T" : "")
               << (c.share_b ? " shared b" : "") << " padding " << c.padding);
  plan::MatmulStep step;
  step.dtype = c.dtype, step.transpose_a = c.transpose_a, step.transpose_b = c.transpose_b;
  step.m = c.m, step.n = c.n, step.k = c.k, step.batch = c.batch;
  step.lda = (c.transpose_a ? c.m : c.k) + c.padding;
  step.ldb = (c.transpose_b ? c.k : c.n) + c.padding;
  step.ldc = c.n + c.padding;
  step.stride_a = (c.transpose_a ? c.k : c.m) * step.lda;
  step.stride_b = c.share_b ? 0 : (c.transpose_b ? c.n : c.k) * step.ldb;
  step.stride_c = c.m * step.ldc;
  step.offset_a = c.padding, step.offset_b = 2 * c.padding;
  step.a = {Ref::Kind::Leaf, 0, 0}, step.b = {Ref::Kind::Leaf, 1, 0},
  step.c = {Ref::Kind::Output, 0, 0};
  step.label = "matmul";

  const auto fill = [&](std::int64_t elements, std::uint64_t seed) {
    Bytes bytes(static_cast<std::size_t>(elements) * size_of(c.dtype));
    for (std::int64_t e = 0; e < elements; ++e) {
      const std::uint32_t word = kernel::philox(seed, static_cast<std::uint64_t>(e))[0];
      write_element(bytes.data(), e, c.dtype, {.f = std::ldexp(word >> 8, -23) - 1, .i = word % 7});
    }
    return bytes;
  };
  const std::int64_t size_a = c.batch * step.stride_a + c.padding;
  const std::int64_t size_b =
      (c.share_b ? 1 : c.batch) * (c.transpose_b ? c.n : c.k) * step.ldb + 2 * c.padding;
  const std::int64_t size_c = c.batch * step.stride_c;
  const Bytes a = fill(size_a, 1), b = fill(size_b, 2), before = fill(size_c, 3);
  Chunk chunk(backend, a.size() + b.size() + before.size() + 4096);
  const std::vector<Address> leaves{chunk.put(a), chunk.put(b)}, outputs{chunk.put(before)};
  backend.prepare(0, one_step(step, 0))->run(leaves, outputs, {}, {});
  const Bytes result = fetch(backend, outputs[0], before.size());

  for (std::int64_t batch = 0; batch < c.batch; ++batch) {
    for (std::int64_t i = 0; i < c.m; ++i) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < c.k; ++k) {
          const std::int64_t at =
              batch * step.stride_a + (c.transpose_a ? k * step.lda + i : i * step.lda + k);
          const std::int64_t bt =
              batch * step.stride_b + (c.transpose_b ? j * step.ldb + k : k * step.ldb + j);
          const Value va = read_element(a.data(), at + step.offset_a, c.dtype);
          const Value vb = read_element(b.data(), bt + step.offset_b, c.dtype);
          sum += is_floating(c.dtype) ? va.f * vb.f : static_cast<double>(va.i * vb.i);
        }
        const Value got =
            read_element(result.data(), batch * step.stride_c + i * step.ldc + j, c.dtype);
        ASSERT_NEAR(is_floating(c.dtype) ? got.f : static_cast<double>(got.i), sum, c.tolerance)
            << "at " << batch << ", " << i << ", " << j;
      }
      for (std::int64_t j = c.n; j < step.ldc; ++j) {
        const std::int64_t at = batch * step.stride_c + i * step.ldc + j;
        ASSERT_EQ(read_element(result.data(), at, c.dtype).f,
                  read_element(before.data(), at, c.dtype).f)
            << "written outside the matrix";
      }
    }
  }
}

TEST_F(OpenClBackendTest, SmallProductsAreKernels) {
  const auto calls = live_counters().library_calls.load(),
             launches = live_counters().launches.load();
  std::uint64_t products = 0;
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const std::int64_t batch : {1, 3}) {
        check_matmul(backend(), {.transpose_a = transpose_a,
                                 .transpose_b = transpose_b,
                                 .m = 17,
                                 .n = 33,
                                 .k = 65,
                                 .batch = batch,
                                 .share_b = transpose_a && batch > 1,
                                 .padding = batch == 1 ? 0 : 5});
        ++products;
      }
    }
  }
  check_matmul(backend(), {.m = 3, .n = 5, .k = 1000});  // long rows are shared by several threads
  check_matmul(backend(), {.m = 4, .n = 4, .k = 0});
  check_matmul(backend(), {.dtype = DType::f64, .m = 9, .n = 8, .k = 70, .tolerance = 1e-12});
  check_matmul(backend(), {.dtype = DType::bf16, .m = 9, .n = 8, .k = 70, .tolerance = 0.1});
  check_matmul(backend(), {.dtype = DType::f16, .m = 9, .n = 8, .k = 70, .tolerance = 0.02});
  check_matmul(backend(), {.dtype = DType::i64, .m = 9, .n = 8, .k = 70, .tolerance = 0});
  EXPECT_EQ(live_counters().library_calls.load(), calls);
  EXPECT_EQ(live_counters().launches.load() - launches, products + 6);
}

TEST_F(OpenClBackendTest, LargeProductsAreOneOrTwoKernels) {
  const auto calls = live_counters().library_calls.load(),
             launches = live_counters().launches.load();
  check_matmul(backend(), {.m = 128, .n = 128, .k = 128});
  check_matmul(backend(), {.transpose_a = true, .m = 130, .n = 150, .k = 129, .padding = 3});
  check_matmul(backend(), {.transpose_b = true, .m = 300, .n = 257, .k = 140});
  check_matmul(backend(), {.m = 64, .n = 70, .k = 130, .batch = 4});
  check_matmul(backend(),
               {.transpose_b = true, .m = 64, .n = 70, .k = 130, .batch = 4, .share_b = true});
  check_matmul(backend(), {.m = 17, .n = 33, .k = 8000, .tolerance = 1e-3});  // GPUs: in chunks
  EXPECT_EQ(live_counters().library_calls.load(), calls);
  EXPECT_EQ(live_counters().launches.load() - launches, backend().device_is_gpu(0) ? 7u : 6u);
}

}  // namespace
}  // namespace volta::testing
