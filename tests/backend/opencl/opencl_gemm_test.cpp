// Runs the product kernels in every cut on the first OpenCL device, against sums in double
// precision. They are built and run through the OpenCL API, so that a test can choose the cut.
#if __has_include(<CL/cl.h>)
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/common/gemm_samples.h"
#include "kernel/kernel_reference.h"
#include "kernel/observer.h"

// The tests that need the loader open it, so that others do not find a driver in the process.
#define CALL(name) reinterpret_cast<decltype(&name)>(dlsym(library_, #name))

namespace volta::testing {
namespace {

using Bytes = std::vector<unsigned char>;
using kernel::Dialect;
using plan::MatmulStep;

// A copy of bytes that ends at an unmapped page: a CPU device that reads past the end faults.
class GuardedCopy {
 public:
  explicit GuardedCopy(const Bytes& bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = (bytes.size() + page - 1) / page * page;
    mapped_ = used + page;
    base_ = static_cast<unsigned char*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) throw std::runtime_error("mmap failed");
    mprotect(base_ + used, page, PROT_NONE);
    data_ = base_ + used - bytes.size();
    std::ranges::copy(bytes, data_);
  }
  GuardedCopy(const GuardedCopy&) = delete;
  GuardedCopy& operator=(const GuardedCopy&) = delete;
  ~GuardedCopy() { munmap(base_, mapped_); }

  unsigned char* data() const { return data_; }

 private:
  unsigned char* base_;
  unsigned char* data_;
  std::size_t mapped_;
};

class OpenClDevice {
 public:
  OpenClDevice() {
    library_ = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    std::array<cl_platform_id, 8> platforms{};
    cl_uint count = 0;
    if (library_ == nullptr ||
        CALL(clGetPlatformIDs)(platforms.size(), platforms.data(), &count) != CL_SUCCESS) {
      return;
    }
    // A GPU if there is one.
    for (const cl_device_type kind :
         {cl_device_type{CL_DEVICE_TYPE_GPU}, cl_device_type{CL_DEVICE_TYPE_ALL}}) {
      for (cl_uint i = 0; i < std::min<cl_uint>(count, 8) && device_ == nullptr; ++i) {
        if (CALL(clGetDeviceIDs)(platforms[i], kind, 1, &device_, nullptr) != CL_SUCCESS)
          device_ = nullptr;
      }
    }
    if (device_ == nullptr) return;
    context_ = CALL(clCreateContext)(nullptr, 1, &device_, nullptr, nullptr, &status_);
    queue_ = CALL(clCreateCommandQueue)(context_, device_, 0, &status_);
  }

  bool present() const { return queue_ != nullptr; }

  // Runs the launches on copies of the buffers and returns the new contents of c.
  Bytes run(const GemmLaunches& all, const Bytes& a, const Bytes& b, const Bytes& c) {
    const GuardedCopy guarded_a(a), guarded_b(b);
    std::array<cl_mem, 4> memory{put(guarded_a.data(), a.size(), CL_MEM_USE_HOST_PTR),
                                 put(guarded_b.data(), b.size(), CL_MEM_USE_HOST_PTR),
                                 put(c.data(), c.size(), CL_MEM_COPY_HOST_PTR), nullptr};
    // Partial sums start as NaN, so that reading one before it is written is detected.
    const Bytes partial(all.partial_bytes + 1, 0xff);
    memory[3] = put(partial.data(), partial.size(), CL_MEM_COPY_HOST_PTR);
    std::vector<cl_kernel> kernels;
    for (const GemmLaunch& launch : all.launches) {
      cl_kernel kernel = build(launch.source);
      kernels.push_back(kernel);
      cl_uint next = 0;
      for (const GemmLaunch::Buffer buffer : launch.buffers) {
        set(kernel, next++, sizeof(cl_mem), &memory[static_cast<std::size_t>(buffer)]);
        const cl_ulong offset = 0;
        set(kernel, next++, sizeof(offset), &offset);
      }
      set(kernel, next, launch.ints.size() * sizeof(cl_long), launch.ints.data());
      const auto threads = static_cast<std::size_t>(launch.threads);
      const std::size_t global = threads * static_cast<std::size_t>(launch.blocks);
      check(CALL(clEnqueueNDRangeKernel)(queue_, kernel, 1, nullptr, &global, &threads, 0, nullptr,
                                         nullptr));
    }
    Bytes result(c.size());
    check(CALL(clEnqueueReadBuffer)(queue_, memory[2], CL_TRUE, 0, result.size(), result.data(), 0,
                                    nullptr, nullptr));
    for (cl_kernel kernel : kernels) check(CALL(clReleaseKernel)(kernel));
    for (cl_mem m : memory) check(CALL(clReleaseMemObject)(m));
    return result;
  }

 private:
  static void check(cl_int status) {
    if (status != CL_SUCCESS)
      throw std::runtime_error("OpenCL failed with " + std::to_string(status));
  }

  cl_mem put(const unsigned char* data, std::size_t bytes, cl_mem_flags from) {
    cl_mem memory = CALL(clCreateBuffer)(context_, CL_MEM_READ_WRITE | from, bytes,
                                         const_cast<unsigned char*>(data), &status_);
    check(status_);
    return memory;
  }

  void set(cl_kernel kernel, cl_uint index, std::size_t bytes, const void* value) {
    check(CALL(clSetKernelArg)(kernel, index, bytes, value));
  }

  cl_kernel build(const kernel::KernelSource& source) {
    kernel::report_kernel("opencl", source);
    cl_program& program = programs_[source.name];
    if (program == nullptr) {
      const char* text = source.text.c_str();
      program = CALL(clCreateProgramWithSource)(context_, 1, &text, nullptr, &status_);
      check(status_);
      check(CALL(clBuildProgram)(program, 1, &device_, "-cl-std=CL1.2 -w", nullptr, nullptr));
    }
    cl_kernel kernel = CALL(clCreateKernel)(program, source.name.c_str(), &status_);
    check(status_);
    return kernel;
  }

  void* library_ = nullptr;
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_int status_ = CL_SUCCESS;
  std::map<std::string, cl_program> programs_;
};

OpenClDevice& device() {
  static OpenClDevice opened;
  return opened;
}

// Elements in [-1, 1] inside the matrices, NaN everywhere else.
Bytes matrices(std::int64_t elements, DType dtype, std::uint64_t seed, std::int64_t offset,
               std::int64_t batch, std::int64_t stride, std::int64_t rows, std::int64_t ld,
               std::int64_t columns) {
  Bytes bytes(static_cast<std::size_t>(elements) * size_of(dtype));
  for (std::int64_t e = 0; e < elements; ++e)
    write_element(bytes.data(), e, dtype, {.f = std::numeric_limits<double>::quiet_NaN(), .i = 0});
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t e = offset + b * stride + r * ld + c;
        const std::uint32_t word = kernel::philox(seed, static_cast<std::uint64_t>(e))[0];
        write_element(bytes.data(), e, dtype, {.f = std::ldexp(word >> 8, -23) - 1, .i = 0});
      }
    }
  }
  return bytes;
}

double epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

// Every result is within a few roundings of the sum in double, nothing else in C is written, and a
// second run gives the same bits.
void check(const MatmulStep& s, const GemmLaunches& launches) {
  SCOPED_TRACE(::testing::Message() << s.dtype << " " << s.m << "x" << s.k << "x" << s.n
                                    << " batch " << s.batch << (s.transpose_a ? " a^T" : "")
                                    << (s.transpose_b ? " b^T" : "") << " lda " << s.lda);
  const std::int64_t rows_a = s.transpose_a ? s.k : s.m, columns_a = s.transpose_a ? s.m : s.k;
  const std::int64_t rows_b = s.transpose_b ? s.n : s.k, columns_b = s.transpose_b ? s.k : s.n;
  const Bytes a = matrices(s.offset_a + s.batch * s.stride_a, s.dtype, 1, s.offset_a, s.batch,
                           s.stride_a, rows_a, s.lda, columns_a);
  const std::int64_t batch_b = s.stride_b == 0 ? 1 : s.batch;
  const Bytes b = matrices(s.offset_b + rows_b * s.ldb + (batch_b - 1) * s.stride_b, s.dtype, 2,
                           s.offset_b, batch_b, s.stride_b, rows_b, s.ldb, columns_b);
  const DType result_dtype = s.result_dtype();
  // Canaries between rows and matrices, and a whole tile after the end.
  const Bytes before(
      static_cast<std::size_t>(s.batch * s.stride_c + 128 * s.ldc) * size_of(result_dtype), 0x5a);
  const Bytes result = device().run(launches, a, b, before);
  EXPECT_TRUE(device().run(launches, a, b, before) == result) << "other bits the second time";

  std::vector<bool> written(before.size() / size_of(result_dtype));
  std::vector<double> left(static_cast<std::size_t>(s.m * s.k)), right(left);
  right.resize(static_cast<std::size_t>(s.k * s.n));
  for (std::int64_t batch = 0; batch < s.batch; ++batch) {
    const auto element = [&](const Bytes& bytes, std::int64_t offset, std::int64_t ld,
                             bool transposed, std::int64_t r, std::int64_t c) {
      return read_element(bytes.data(), offset + (transposed ? c * ld + r : r * ld + c), s.dtype).f;
    };
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t d = 0; d < s.k; ++d)
        left[static_cast<std::size_t>(i * s.k + d)] =
            element(a, s.offset_a + batch * s.stride_a, s.lda, s.transpose_a, i, d);
    for (std::int64_t j = 0; j < s.n; ++j)
      for (std::int64_t d = 0; d < s.k; ++d)
        right[static_cast<std::size_t>(j * s.k + d)] =
            element(b, s.offset_b + batch * s.stride_b, s.ldb, s.transpose_b, d, j);
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        double sum = 0, size = 0;
        for (std::int64_t d = 0; d < s.k; ++d) {
          const double term = left[static_cast<std::size_t>(i * s.k + d)] *
                              right[static_cast<std::size_t>(j * s.k + d)];
          sum += term;
          size += std::fabs(term);
        }
        const std::int64_t at = batch * s.stride_c + i * s.ldc + j;
        written[static_cast<std::size_t>(at)] = true;
        const double tolerance = 8 * epsilon(kernel::gemm_sum_dtype(s.dtype)) * size +
                                 epsilon(result_dtype) * std::fabs(sum);
        ASSERT_NEAR(read_element(result.data(), at, result_dtype).f, sum, tolerance)
            << "at " << batch << ", " << i << ", " << j;
      }
    }
  }
  for (std::size_t e = 0; e < written.size(); ++e) {
    if (written[e]) continue;
    const std::size_t at = e * size_of(result_dtype);
    ASSERT_TRUE(std::equal(result.begin() + static_cast<std::ptrdiff_t>(at),
                           result.begin() + static_cast<std::ptrdiff_t>(at + size_of(result_dtype)),
                           before.begin()))
        << "written outside the matrix, element " << e;
  }
}

void check(const MatmulStep& s, const GemmCut& cut) {
  check(s, gemm_launches(s, cut, Dialect::OpenCL));
}

class OpenClGemmTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!device().present()) GTEST_SKIP() << "there is no OpenCL device";
  }
};

// One and several tiles with all kinds of edges; k below, at and above the tile's depth.
TEST_F(OpenClGemmTest, TransposesAndLayouts) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const GemmCut cut{with_slices(kSmall, 2), 1};
      for (const std::int64_t padding : {0, 4}) {  // vector accesses
        check(product(44, 36, 52, ta, tb, 2, padding), cut);
        check(product(32, 32, 16, ta, tb, 1, padding), cut);
      }
      for (const std::int64_t padding : {1, 3}) {  // single elements
        check(product(33, 65, 35, ta, tb, 3, padding), cut);
        check(product(1, 1, 1, ta, tb, 1, padding), cut);
        check(product(44, 36, 52, ta, tb, 1, padding), cut);
      }
    }
  }
}

TEST_F(OpenClGemmTest, ASharedOperandHasNoStride) {
  MatmulStep s = product(40, 40, 40, false, false, 3);
  s.stride_b = 0;
  check(s, {with_slices(kSmall, 2), 1});
}

TEST_F(OpenClGemmTest, EveryTile) {
  check(product(136, 260, 20), {kLarge, 1});
  check(product(129, 127, 33, true, true, 1, 1), {kLarge, 1});
  check(product(68, 132, 200, true, false), {with_slices(kMiddle, 4), 1});
  check(product(65, 63, 131, false, true, 1, 3), {with_slices(kMiddle, 2), 1});
  check(product(100, 10, 300), {with_slices(kTall, 4), 1});
  check(product(7, 130, 99, true, true), {with_slices(kFlat, 2), 1});
}

// Matrices of 2^31 elements do not fit here, so the kernel for them computes a small product.
TEST_F(OpenClGemmTest, WideIndices) {
  const MatmulStep s = product(70, 33, 35, false, true, 2, 1);
  const GemmTile tile = with_slices(kSmall, 2);
  kernel::GemmOptions options{.transpose_b = true, .index64 = true, .tile = tile};
  GemmLaunches launches = gemm_launches(s, {tile, 1}, Dialect::OpenCL);
  launches.launches[0].source = kernel::emit_gemm(options, Dialect::OpenCL);
  check(s, launches);
  launches = gemm_strip_launches(s);
  launches.launches[0].source = kernel::emit_gemm_strip(options);
  check(s, launches);
}

TEST_F(OpenClGemmTest, ManyBandsOfTiles) { check(product(9 * 32 + 5, 77, 8), {kSmall, 1}); }

TEST_F(OpenClGemmTest, ChunksAreAddedUpBySecondKernel) {
  check(product(40, 36, 1000, false, true, 2, 4), {with_slices(kSmall, 2), 5});
  check(product(40, 10, 500, false, false, 1, 1), {with_slices(kTall, 4), 3});
}

TEST_F(OpenClGemmTest, HalvesAreAddedUpInF32) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    MatmulStep s = product(44, 36, 70, false, true, 1, 0, dtype);
    check(s, {with_slices(kSmall, 2), 1});
    s.f32_result = true;
    check(s, {with_slices(kSmall, 2), 1});
  }
  check(product(44, 36, 300, true, false, 1, 4, DType::bf16), {with_slices(kSmall, 2), 2});
}

TEST_F(OpenClGemmTest, EveryCutThatIsTried) {
  for (const MatmulStep& s :
       {product(140, 90, 1100, false, true), product(70, 10, 600, true, false, 2, 1),
        product(70, 66, 300, false, false, 1, 0, DType::f64)}) {
    for (const GemmCut& cut : gemm_cuts(s)) check(s, cut);
  }
}

TEST_F(OpenClGemmTest, Doubles) {
  const GemmTile middle{.rows = 64, .columns = 64, .depth = 8, .thread_tile = 4};
  check(product(66, 70, 100, false, true, 1, 0, DType::f64), {middle, 1});
  check(product(33, 31, 200, true, false, 1, 1, DType::f64),
        {with_slices(with_depth(kSmall, 8), 4), 2});
}

TEST_F(OpenClGemmTest, StripsForCpuDevices) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const auto& s : {product(70, 35, 130, ta, tb, 2, 3), product(64, 16, 128, ta, tb),
                            product(1, 1, 1, ta, tb), product(9, 17, 300, ta, tb)})
        check(s, gemm_strip_launches(s));
    }
  }
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    MatmulStep s = product(70, 35, 130, false, true, 1, 3, dtype);
    check(s, gemm_strip_launches(s));
  }
}

}  // namespace
}  // namespace volta::testing
#endif
