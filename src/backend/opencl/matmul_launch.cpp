// Calls CLBlast's Gemm, or GemmStridedBatched for batches.
#include "backend/opencl/matmul_launch.h"

#include <clblast.h>
#include <fmt/format.h>

#include <array>

#include "backend/matmul_program.h"
#include "core/counting.h"
#include "platform/env.h"
#include "volta/error.h"

namespace volta::opencl {
namespace {

// Below this many multiplications a kernel program is as fast, and spares CLBlast's compilation,
// which takes many seconds on a CPU device.
constexpr std::int64_t kLibraryWork = std::int64_t{1} << 21;

clblast::Transpose transpose(bool yes) {
  return yes ? clblast::Transpose::kYes : clblast::Transpose::kNo;
}

void check_blas(clblast::StatusCode status, const plan::MatmulStep& step) {
  if (status == clblast::StatusCode::kSuccess) return;
  throw BackendError(
      fmt::format("opencl: CLBlast failed with status {} in {} ({} x {} x {}, batch {})",
                  static_cast<int>(status), step.label, step.m, step.k, step.n, step.batch));
}

struct Operand {
  cl_mem memory;
  std::size_t offset;  // elements
};

Operand operand(Address address, std::int64_t offset, DType dtype) {
  return {memory_of(address), address.offset / size_of(dtype) + static_cast<std::size_t>(offset)};
}

template <class T>
void multiply(cl_command_queue queue, const plan::MatmulStep& s, Operand a, Operand b, Operand c,
              cl_mem scratch, cl_event* event) {
  const auto size = [](std::int64_t value) { return static_cast<std::size_t>(value); };
  constexpr auto kLayout = clblast::Layout::kRowMajor;
  if (s.batch == 1) {
    check_blas(clblast::Gemm<T>(kLayout, transpose(s.transpose_a), transpose(s.transpose_b),
                                size(s.m), size(s.n), size(s.k), T{1}, a.memory, a.offset,
                                size(s.lda), b.memory, b.offset, size(s.ldb), T{0}, c.memory,
                                c.offset, size(s.ldc), &queue, event, scratch),
               s);
  } else {
    check_blas(clblast::GemmStridedBatched<T>(
                   kLayout, transpose(s.transpose_a), transpose(s.transpose_b), size(s.m),
                   size(s.n), size(s.k), T{1}, a.memory, a.offset, size(s.lda), size(s.stride_a),
                   b.memory, b.offset, size(s.ldb), size(s.stride_b), T{0}, c.memory, c.offset,
                   size(s.ldc), size(s.stride_c), size(s.batch), &queue, event),
               s);
  }
}

void multiply(cl_command_queue queue, const plan::MatmulStep& step, Operand a, Operand b, Operand c,
              cl_mem scratch, cl_event* event) {
  if (step.dtype == DType::f64) {
    multiply<double>(queue, step, a, b, c, scratch, event);
  } else {
    multiply<float>(queue, step, a, b, c, scratch, event);
  }
}

template <class T>
std::size_t scratch_bytes(cl_command_queue queue, const plan::MatmulStep& s, Operand a, Operand b,
                          Operand c) {
  const auto size = [](std::int64_t value) { return static_cast<std::size_t>(value); };
  std::size_t bytes = 0;
  check_blas(clblast::GemmTempBufferSize<T>(clblast::Layout::kRowMajor, transpose(s.transpose_a),
                                            transpose(s.transpose_b), size(s.m), size(s.n),
                                            size(s.k), a.offset, size(s.lda), b.offset, size(s.ldb),
                                            c.offset, size(s.ldc), &queue, bytes),
             s);
  return bytes;
}

// The smallest product that goes through the same kernels.
plan::MatmulStep smallest_like(const plan::MatmulStep& step) {
  plan::MatmulStep tiny;
  tiny.dtype = step.dtype;
  tiny.m = tiny.n = tiny.k = tiny.lda = tiny.ldb = tiny.ldc = 1;
  tiny.stride_a = tiny.stride_b = tiny.stride_c = 1;
  tiny.batch = step.batch > 1 ? 2 : 1;
  tiny.label = step.label;
  return tiny;
}

}  // namespace

bool takes_library(const plan::MatmulStep& step) {
  static const bool wanted = platform::environment("VOLTA_OPENCL_PRODUCTS") == "clblast";
  if (!wanted) return false;
  const bool library_dtype = step.dtype == DType::f32 || step.dtype == DType::f64;
  // CLBlast insists that rows do not overlap, and its kernels index with 32 bits.
  const bool plain = step.lda >= (step.transpose_a ? step.m : step.k) &&
                     step.ldb >= (step.transpose_b ? step.k : step.n) && step.ldc >= step.n &&
                     !needs_index64(step);
  return library_dtype && plain && step.batch * step.m * step.n * step.k >= kLibraryWork;
}

MatmulLaunch::MatmulLaunch(DeviceContext& device, const plan::MatmulStep& step)
    : device_(device), step_(step) {
  const BufferHandle buffer = device_.allocate(6 * sizeof(double), "the first matrix product");
  cl_mem memory = buffer.get();
  const std::array<double, 6> zeros{};
  device_.write(memory, 0, zeros.data(), sizeof(zeros));
  multiply(device_.queue(), smallest_like(step), {memory, 0}, {memory, 2}, {memory, 4}, nullptr,
           nullptr);
}

void MatmulLaunch::bind(const RunBuffers& buffers) {
  const Address a = buffers.at(step_.a), b = buffers.at(step_.b), c = buffers.at(step_.c);
  if (bound_ && a == a_ && b == b_ && c == c_) return;
  bound_ = false;
  a_ = a, b_ = b, c_ = c;
  if (step_.batch == 1) {
    const Operand oa = operand(a, step_.offset_a, step_.dtype),
                  ob = operand(b, step_.offset_b, step_.dtype);
    const Operand oc = operand(c, 0, step_.dtype);
    device_.reserve_scratch(step_.dtype == DType::f64
                                ? scratch_bytes<double>(device_.queue(), step_, oa, ob, oc)
                                : scratch_bytes<float>(device_.queue(), step_, oa, ob, oc));
  }
  bound_ = true;
}

void MatmulLaunch::enqueue() {
  multiply(device_.queue(), step_, operand(a_, step_.offset_a, step_.dtype),
           operand(b_, step_.offset_b, step_.dtype), operand(c_, 0, step_.dtype), device_.scratch(),
           device_.timeline().next_event());  // of the last of its kernels
  count(live_counters().library_calls);
}

}  // namespace volta::opencl
