// Matrix products through oneDNN. Its own threads would split sums by their number, and results
// would change with it. Here C is split into tiles by shape alone, each tile is one single-threaded
// product, and Volta spreads the tiles over threads. Sums are f32, also for bf16 operands.
#include "backend/cpu/library/matmul.h"

#ifdef VOLTA_HAS_ONEDNN
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cpu/library/onednn_product.h"
#include "backend/cpu/library/scratch.h"
#include "backend/cpu/vector/simd_table.h"
#include "platform/parallel.h"
#include "volta/error.h"

namespace volta::cpu {
namespace {

// Tiles are halved until there are about kTiles of them, but not below kLeastTileWork multiply-adds
// or a longer side of kShortSide; tiles above kMostTileWork are halved further.
constexpr std::int64_t kTiles = 16;
constexpr std::int64_t kLeastTileWork = std::int64_t{1} << 21;
constexpr std::int64_t kMostTileWork = std::int64_t{1} << 27;
constexpr std::int64_t kShortSide = 192;
constexpr std::int64_t kThinRows = 4;
// Products with at most this many columns and many more rows are computed transposed.
constexpr std::int64_t kThinColumns = 16;
// Sums are split into pieces of at least this length if there are too few tiles.
constexpr std::int64_t kLeastDepth = 2048;
// Small products of a batch are grouped into one call up to this many multiply-adds.
constexpr std::int64_t kGroupWork = std::int64_t{1} << 20;

struct TileShape {
  std::int64_t rows, columns;
};
TileShape tile_of(const plan::MatmulStep& step) {
  TileShape tile{step.m, step.n};
  // A few rows take as long as kThinRows, because reading the other operand from memory dominates.
  const auto work = [&] { return std::max(tile.rows, kThinRows) * tile.columns * step.k; };
  const std::int64_t limit = std::clamp(work() / kTiles, kLeastTileWork, kMostTileWork);
  while (work() > limit && std::max(tile.rows, tile.columns) > kShortSide) {
    std::int64_t& longer = tile.rows >= tile.columns ? tile.rows : tile.columns;
    longer = (longer + 31) / 32 * 16;  // half, rounded up to 16
  }
  return tile;
}

std::int64_t bytes_of(DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); }

// A part of C that starts at this batch entry, row and column.
struct Tile {
  std::int64_t batch, row, column;
  ProductCall call;
};

class OneDnnMatmul final : public Matmul {
 public:
  explicit OneDnnMatmul(const plan::MatmulStep& step) : step_(step) {
    [[maybe_unused]] const OneThread alone;
    const auto [rows, columns] = tile_of(step);
    const std::int64_t work = std::max<std::int64_t>(1, step.m * step.n * step.k);
    const std::int64_t group = std::clamp<std::int64_t>(kGroupWork / work, 1, step.batch);
    for (std::int64_t batch = 0; batch < step.batch; batch += group) {
      for (std::int64_t row = 0; row < step.m; row += rows) {
        for (std::int64_t column = 0; column < step.n; column += columns) {
          add_tile(batch, row, column, std::min(group, step.batch - batch),
                   std::min(rows, step.m - row), std::min(columns, step.n - column));
        }
      }
    }
    grain_ = std::max<std::int64_t>(1, kSerialWork / (rows * columns * group * step.k));
  }

  void run(const void* a, const void* b, void* c, const void* bias) override {
    // The memory objects hold the addresses of a run, so only one run is possible at a time.
    const std::lock_guard<std::mutex> lock(mutex_);
    [[maybe_unused]] const OneThread alone;
    platform::parallel_for(static_cast<std::int64_t>(tiles_.size()), grain_,
                           [&](std::int64_t begin, std::int64_t end) {
                             for (std::int64_t n = begin; n < end; ++n)
                               run_tile(tiles_[static_cast<std::size_t>(n)], a, b, c, bias);
                           });
  }

  std::uint64_t host_bytes() const override {
    return sizeof(*this) + tiles_.size() * (sizeof(Tile) + kPrimitiveUseBytes);
  }

 private:
  using Desc = dnnl::memory::desc;
  using Dims = dnnl::memory::dims;
  static constexpr std::int64_t kSerialWork = 1 << 18;  // below this, one thread is used

  std::int64_t row_step_a() const { return step_.transpose_a ? 1 : step_.lda; }
  std::int64_t depth_step_a() const { return step_.transpose_a ? step_.lda : 1; }
  std::int64_t depth_step_b() const { return step_.transpose_b ? 1 : step_.ldb; }
  std::int64_t column_step_b() const { return step_.transpose_b ? step_.ldb : 1; }

  // A shared operand is a batch of one, which oneDNN broadcasts.
  static Desc matrix(DType dtype, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                     std::int64_t stride, std::int64_t row_step, std::int64_t column_step) {
    const auto type = onednn_type(dtype);
    if (batch == 1) return {{rows, columns}, type, Dims{row_step, column_step}};
    if (stride == 0) return {{1, rows, columns}, type, Dims{rows * columns, row_step, column_step}};
    return {{batch, rows, columns}, type, Dims{stride, row_step, column_step}};
  }

  void add_tile(std::int64_t batch, std::int64_t row, std::int64_t column, std::int64_t count,
                std::int64_t rows, std::int64_t columns) {
    const plan::MatmulStep& s = step_;
    const Desc a = matrix(s.dtype, count, rows, s.k, s.stride_a, row_step_a(), depth_step_a());
    const Desc b =
        matrix(s.dtype, count, s.k, columns, s.stride_b, depth_step_b(), column_step_b());
    const Desc c = matrix(s.result_dtype(), count, rows, columns, s.stride_c, s.ldc, 1);
    const Desc bias({1, columns}, onednn_type(s.result_dtype()), Dims{columns, 1});
    // The tiles of a thread share its scratch memory, which stays in its caches.
    tiles_.push_back(
        {batch, row, column, ProductCall(product_of(a, b, bias, c, s.has_bias), s.has_bias)});
  }

  void run_tile(Tile& tile, const void* a, const void* b, void* c, const void* bias) const {
    const std::int64_t operand = bytes_of(step_.dtype), result = bytes_of(step_.result_dtype());
    const auto at = [](const void* base, std::int64_t bytes) {
      return static_cast<const std::byte*>(base) + bytes;
    };
    ProductCall& call = tile.call;
    call.a.set(
        at(a, operand * (step_.offset_a + tile.batch * step_.stride_a + tile.row * row_step_a())));
    call.b.set(at(b, operand * (step_.offset_b + tile.batch * step_.stride_b +
                                tile.column * column_step_b())));
    call.c.set(at(c, result * (tile.batch * step_.stride_c + tile.row * step_.ldc + tile.column)));
    if (step_.has_bias) call.bias.set(at(bias, result * tile.column));
    call.scratchpad.set(thread_scratch(call.scratch_bytes));
    call.execute();
  }

  plan::MatmulStep step_;
  std::mutex mutex_;
  std::vector<Tile> tiles_;
  std::int64_t grain_ = 1;
};

// Computes C^T = B^T A^T into the thread's workspace: vectors run along rows, and the rows of thin
// products are too short for them.
class SwappedMatmul final : public Matmul {
 public:
  explicit SwappedMatmul(const plan::MatmulStep& step) : step_(step), product_(swapped(step)) {
    const std::int64_t operand = bytes_of(step.dtype), result = bytes_of(step.result_dtype());
    result_bytes_ = (step.batch * step.m * step.n * result + 63) / 64 * 64;
    if (packs(step)) packed_bytes_ = step.batch * step.n * step.k * operand;
  }

  static bool suits(const plan::MatmulStep& step) {
    return step.n <= kThinColumns && step.m >= 4 * step.n && step.k <= 4 * kLeastDepth;
  }

  void run(const void* a, const void* b, void* c, const void*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const plan::MatmulStep& s = step_;
    std::byte* const turned =
        thread_workspace(static_cast<std::size_t>(result_bytes_ + packed_bytes_));
    if (packs(s)) {
      std::byte* const packed = turned + result_bytes_;
      const std::int64_t size = bytes_of(s.dtype);
      const std::byte* from = static_cast<const std::byte*>(b) + s.offset_b * size;
      for (std::int64_t n = 0; n < (s.stride_b == 0 ? 1 : s.batch); ++n) {
        simd().turn[size_index(s.dtype)](packed + n * s.n * s.k * size, s.k,
                                         from + n * s.stride_b * size, s.ldb, s.k, s.n, true);
      }
      b = packed;
    }
    product_.run(b, a, turned, nullptr);
    const DType result = s.result_dtype();
    for (std::int64_t n = 0; n < s.batch; ++n) {
      simd().turn[size_index(result)](
          static_cast<std::byte*>(c) + n * s.stride_c * bytes_of(result), s.ldc,
          turned + n * s.m * s.n * bytes_of(result), s.m, s.n, s.m, false);
    }
  }

  std::uint64_t host_bytes() const override { return sizeof(*this) + product_.host_bytes(); }

 private:
  // oneDNN is slow if both operands are transposed, so the thin one is transposed here.
  static bool packs(const plan::MatmulStep& step) { return !step.transpose_a && !step.transpose_b; }

  static plan::MatmulStep swapped(const plan::MatmulStep& step) {
    plan::MatmulStep other = step;
    std::swap(other.m, other.n);
    std::swap(other.lda, other.ldb);
    std::swap(other.stride_a, other.stride_b);
    std::swap(other.offset_a, other.offset_b);
    other.transpose_a = !step.transpose_b;
    other.transpose_b = !step.transpose_a;
    other.ldc = other.n;
    other.stride_c = other.m * other.n;
    if (packs(step)) {
      other.transpose_a = false;
      other.lda = step.k;
      other.stride_a = step.stride_b == 0 ? 0 : step.n * step.k;
      other.offset_a = 0;
    }
    return other;
  }

  plan::MatmulStep step_;
  std::mutex mutex_;
  OneDnnMatmul product_;
  std::int64_t result_bytes_ = 0, packed_bytes_ = 0;  // in the workspace, one after the other
};

// A long sum for few results, split into pieces of fixed length that are added up in order.
class LongMatmul final : public Matmul {
 public:
  LongMatmul(const plan::MatmulStep& step, std::int64_t pieces) : step_(step) {
    const std::int64_t depth = (step.k / pieces + 63) / 64 * 64;
    pieces_ = step.k / depth;
    plan::MatmulStep piece = step;
    piece.k = depth;
    piece.batch = pieces_;
    piece.stride_a = depth * (step.transpose_a ? step.lda : 1);
    piece.stride_b = depth * (step.transpose_b ? 1 : step.ldb);
    piece.ldc = step.n;
    piece.stride_c = step.m * step.n;
    piece.f32_result = true;
    product_ = std::make_unique<OneDnnMatmul>(piece);
    if (step.k % depth != 0) {
      piece.offset_a += pieces_ * piece.stride_a;
      piece.offset_b += pieces_ * piece.stride_b;
      piece.k = step.k % depth;
      piece.batch = 1;
      rest_ = std::make_unique<OneDnnMatmul>(piece);
    }
    sums_ = (pieces_ + 1) * step.m * step.n + kPad;
    if (rounds()) rounded_ = padded(step.m * step.n);
  }

  // The number of pieces; 1 if the product is not split.
  static std::int64_t pieces(const plan::MatmulStep& step) {
    const auto [rows, columns] = tile_of(step);
    const std::int64_t tiles = ((step.m + rows - 1) / rows) * ((step.n + columns - 1) / columns);
    if (step.batch != 1) return 1;
    return std::max<std::int64_t>(1, std::min(kTiles / tiles, step.k / kLeastDepth));
  }

  void run(const void* a, const void* b, void* c, const void*) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t cells = static_cast<std::size_t>(step_.m * step_.n);
    auto* const sums = reinterpret_cast<float*>(
        thread_workspace(static_cast<std::size_t>(sums_) * sizeof(float) +
                         static_cast<std::size_t>(rounded_) * sizeof(std::uint16_t)));
    product_->run(a, b, sums, nullptr);
    std::size_t count = static_cast<std::size_t>(pieces_);
    if (rest_ != nullptr) rest_->run(a, b, sums + count++ * cells, nullptr);
    for (std::size_t piece = 1; piece < count; ++piece) {
      const float* next = sums + piece * cells;
      for (std::size_t i = 0; i < cells; ++i) sums[i] += next[i];
    }
    if (!rounds()) return copy_rows(sums, static_cast<float*>(c));
    auto* const rounded = reinterpret_cast<std::uint16_t*>(sums + sums_);
    simd().cast[type_index(DType::f32)][type_index(step_.dtype)](rounded, sums, nullptr, nullptr,
                                                                 cells);
    copy_rows(rounded, static_cast<std::uint16_t*>(c));
  }

  std::uint64_t host_bytes() const override {
    return sizeof(*this) + product_->host_bytes() + (rest_ == nullptr ? 0 : rest_->host_bytes());
  }

 private:
  bool rounds() const { return step_.result_dtype() != DType::f32; }

  template <class T>
  void copy_rows(const T* from, T* to) const {
    for (std::int64_t row = 0; row < step_.m; ++row)
      std::copy_n(from + row * step_.n, step_.n, to + row * step_.ldc);
  }

  plan::MatmulStep step_;
  std::mutex mutex_;
  std::int64_t pieces_ = 1;
  std::unique_ptr<OneDnnMatmul> product_, rest_;
  std::int64_t sums_ = 0, rounded_ = 0;  // elements in the workspace, one after the other
};

}  // namespace

bool onednn_multiplies(DType dtype) {
  return onednn_is_on() && (dtype == DType::f32 || (dtype == DType::bf16 && onednn_has_bf16()));
}

bool fuses_epilogue(const plan::MatmulStep& step) {
  // oneDNN's ReLU turns NaN into 0, so activations are not fused.
  return onednn_multiplies(step.dtype) && step.k > 0 && step.activation == plan::Activation::None &&
         !SwappedMatmul::suits(step) && LongMatmul::pieces(step) == 1;
}

void drop_unused_primitives() {
  if (!onednn_is_on()) return;
  dnnl::set_primitive_cache_capacity(0);
  dnnl::set_primitive_cache_capacity(kUnusedPrimitives);
}

std::unique_ptr<Matmul> make_onednn_matmul(const plan::MatmulStep& original) {
  if (!onednn_multiplies(original.dtype) || original.k == 0) return nullptr;
  const plan::MatmulStep step = fold_batch(original);
  try {
    if (SwappedMatmul::suits(step)) return std::make_unique<SwappedMatmul>(step);
    if (const std::int64_t pieces = LongMatmul::pieces(step); pieces > 1)
      return std::make_unique<LongMatmul>(step, pieces);
    if (std::unique_ptr<Matmul> packed = make_packed_matmul(step)) return packed;
    return std::make_unique<OneDnnMatmul>(step);
  } catch (const dnnl::error& error) {
    throw_onednn(fmt::format("matmul: oneDNN cannot prepare [{}, {}] x [{}, {}], batch {}", step.m,
                             step.k, step.k, step.n, step.batch),
                 error);
  }
}

}  // namespace volta::cpu

#else

namespace volta::cpu {

std::unique_ptr<Matmul> make_onednn_matmul(const plan::MatmulStep&) { return nullptr; }
bool onednn_multiplies(DType) { return false; }
bool fuses_epilogue(const plan::MatmulStep&) { return false; }
void drop_unused_primitives() {}

}  // namespace volta::cpu

#endif
