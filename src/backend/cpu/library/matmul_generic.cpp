// The packed matrix product. C is split into tasks by shape alone; each task packs panels of A and
// B and adds up blocks of K in order.
#include <algorithm>

#include "backend/cpu/library/matmul.h"
#include "backend/cpu/vector/simd_table.h"
#include "core/thread_owned.h"
#include "platform/parallel.h"

namespace volta::cpu {
namespace {

constexpr std::int64_t kTaskRows = 96;
constexpr std::int64_t kTaskColumns = 256;
constexpr std::int64_t kDepth = 256;
constexpr std::int64_t kSerialWork = 1 << 16;  // below this many multiply-adds, one thread is used

constexpr std::int64_t blocks(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

template <class T>
class GenericMatmul final : public Matmul {
 public:
  GenericMatmul(const plan::MatmulStep& step, GemmTileFn tile) : step_(step), tile_(tile) {}

  void run(const void* a, const void* b, void* c, const void*) override {
    const std::int64_t rows = blocks(step_.m, kTaskRows), columns = blocks(step_.n, kTaskColumns);
    const std::int64_t work =
        std::min(step_.m, kTaskRows) * std::min(step_.n, kTaskColumns) * step_.k;
    const std::int64_t grain =
        std::max<std::int64_t>(1, kSerialWork / std::max<std::int64_t>(1, work));
    platform::parallel_for(
        step_.batch * rows * columns, grain, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t t = begin; t < end; ++t) {
            const std::int64_t batch = t / (rows * columns), within = t % (rows * columns);
            task(static_cast<const T*>(a) + step_.offset_a + batch * step_.stride_a,
                 static_cast<const T*>(b) + step_.offset_b + batch * step_.stride_b,
                 static_cast<T*>(c) + batch * step_.stride_c, within / columns * kTaskRows,
                 within % columns * kTaskColumns);
          }
        });
  }

 private:
  static constexpr std::int64_t kColumns = kGemmColumns<T>;

  // Allocated on the heap: a library with much thread-local memory cannot be loaded at run time.
  struct Packed {
    alignas(64) T a[kTaskRows * kDepth];
    alignas(64) T b[kTaskColumns * kDepth];
  };

  void task(const T* a, const T* b, T* c, std::int64_t row, std::int64_t column) const {
    auto& [packed_a, packed_b] = ThreadOwned<Packed>::get();
    const std::int64_t m = std::min(kTaskRows, step_.m - row),
                       n = std::min(kTaskColumns, step_.n - column);
    if (step_.k == 0) {
      for (std::int64_t i = 0; i < m; ++i) std::fill_n(c + (row + i) * step_.ldc + column, n, T{0});
    }
    for (std::int64_t k = 0; k < step_.k; k += kDepth) {
      const std::int64_t depth = std::min(kDepth, step_.k - k);
      pack_a(packed_a, a, row, k, m, depth);
      pack_b(packed_b, b, k, column, depth, n);
      for (std::int64_t j = 0; j < n; j += kColumns) {
        for (std::int64_t i = 0; i < m; i += kGemmRows) {
          tile_(c + (row + i) * step_.ldc + column + j, step_.ldc, packed_a + i * depth,
                packed_b + j * depth, depth, std::min(kGemmRows, m - i), std::min(kColumns, n - j),
                k > 0);
        }
      }
    }
  }

  // Packs panels of kGemmRows rows as [panel][k][row]; missing rows are zero.
  void pack_a(T* to, const T* a, std::int64_t row, std::int64_t k, std::int64_t m,
              std::int64_t depth) const {
    const std::int64_t row_step = step_.transpose_a ? 1 : step_.lda,
                       k_step = step_.transpose_a ? step_.lda : 1;
    for (std::int64_t i = 0; i < m; i += kGemmRows) {
      const std::int64_t height = std::min(kGemmRows, m - i);
      const T* from = a + (row + i) * row_step + k * k_step;
      for (std::int64_t p = 0; p < depth; ++p, from += k_step, to += kGemmRows) {
        for (std::int64_t r = 0; r < height; ++r) to[r] = from[r * row_step];
        for (std::int64_t r = height; r < kGemmRows; ++r) to[r] = 0;
      }
    }
  }

  // Packs panels of kColumns columns as [panel][k][column]; missing columns are zero.
  void pack_b(T* to, const T* b, std::int64_t k, std::int64_t column, std::int64_t depth,
              std::int64_t n) const {
    for (std::int64_t j = 0; j < n; j += kColumns, to += kColumns * depth) {
      const std::int64_t width = std::min(kColumns, n - j);
      if (step_.transpose_b) {
        std::fill_n(to, kColumns * depth, T{0});
        for (std::int64_t q = 0; q < width; ++q) {
          const T* from = b + (column + j + q) * step_.ldb + k;
          for (std::int64_t p = 0; p < depth; ++p) to[p * kColumns + q] = from[p];
        }
      } else {
        for (std::int64_t p = 0; p < depth; ++p) {
          const T* from = b + (k + p) * step_.ldb + column + j;
          std::copy(from, from + width, to + p * kColumns);
          std::fill(to + p * kColumns + width, to + (p + 1) * kColumns, T{0});
        }
      }
    }
  }

  plan::MatmulStep step_;
  GemmTileFn tile_;
};

}  // namespace

plan::MatmulStep fold_batch(plan::MatmulStep step) {
  const bool stacked = !step.transpose_a && step.stride_a == step.m * step.lda &&
                       step.stride_b == 0 && step.stride_c == step.m * step.ldc;
  if (step.batch > 1 && stacked) {
    step.m *= step.batch;
    step.batch = 1;
  }
  return step;
}

std::unique_ptr<Matmul> make_generic_matmul(const plan::MatmulStep& step) {
  const plan::MatmulStep folded = fold_batch(step);
  if (step.dtype == DType::f64)
    return std::make_unique<GenericMatmul<double>>(folded, simd().gemm_f64);
  return std::make_unique<GenericMatmul<float>>(folded, simd().gemm_f32);
}

}  // namespace volta::cpu
