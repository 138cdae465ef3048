// Matrix products through oneDNN. Left to its own threads it cuts sums by their number, so bits
// would change with it. Here C is cut into tiles by shape alone, each tile is one single-threaded
// product, and Volta spreads them.
#include "backend/cpu/matmul.h"

#ifdef VOLTA_HAS_ONEDNN
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#ifdef VOLTA_HAS_OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "platform/parallel.h"
#include "volta/error.h"

namespace volta::cpu {
namespace {

// Tiles are halved until there are about kTiles, while they have more multiply-adds than the least
// and a side longer than kShortSide; and further while they have more than the most.
constexpr std::int64_t kTiles = 16;
constexpr std::int64_t kLeastTileWork = std::int64_t{1} << 21;
constexpr std::int64_t kMostTileWork = std::int64_t{1} << 27;
constexpr std::int64_t kShortSide = 192;
// Small products of a batch are joined up to this many multiply-adds.
constexpr std::int64_t kGroupWork = std::int64_t{1} << 20;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// While it lives, oneDNN plans and runs on the calling thread alone.
class OneThread {
 public:
#ifdef VOLTA_HAS_OPENMP
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  int before_;
#endif
};

// A part of C: rows, columns and batch entries from its origin.
struct Tile {
  std::int64_t batch, row, column;
  dnnl::matmul primitive;
  dnnl::memory a, b, c;
  std::unordered_map<int, dnnl::memory> arguments;
  dnnl::stream stream;
};

class OneDnnMatmul final : public Matmul {
 public:
  explicit OneDnnMatmul(const plan::MatmulStep& step) : step_(step) {
    [[maybe_unused]] const OneThread alone;
    std::int64_t rows = step.m, columns = step.n;
    const std::int64_t limit =
        std::clamp(step.m * step.n * step.k / kTiles, kLeastTileWork, kMostTileWork);
    while (rows * columns * step.k > limit && std::max(rows, columns) > kShortSide) {
      std::int64_t& longer = rows >= columns ? rows : columns;
      longer = (longer + 31) / 32 * 16;  // half, rounded up to 16
    }
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

  void run(const void* a, const void* b, void* c) override {
    // Addresses live in the memory objects: one run at a time.
    const std::lock_guard<std::mutex> lock(mutex_);
    [[maybe_unused]] const OneThread alone;
    platform::parallel_for(static_cast<std::int64_t>(tiles_.size()), grain_,
                           [&](std::int64_t begin, std::int64_t end) {
                             for (std::int64_t n = begin; n < end; ++n) {
                               run_tile(tiles_[static_cast<std::size_t>(n)],
                                        static_cast<const float*>(a), static_cast<const float*>(b),
                                        static_cast<float*>(c));
                             }
                           });
  }

 private:
  using Desc = dnnl::memory::desc;
  using Dims = dnnl::memory::dims;
  static constexpr std::int64_t kSerialWork = 1 << 18;  // multiply-adds not worth a second thread

  std::int64_t row_step_a() const { return step_.transpose_a ? 1 : step_.lda; }
  std::int64_t depth_step_a() const { return step_.transpose_a ? step_.lda : 1; }
  std::int64_t depth_step_b() const { return step_.transpose_b ? 1 : step_.ldb; }
  std::int64_t column_step_b() const { return step_.transpose_b ? step_.ldb : 1; }

  // A shared operand is a batch of one, which oneDNN broadcasts.
  static Desc matrix(std::int64_t batch, std::int64_t rows, std::int64_t columns,
                     std::int64_t stride, std::int64_t row_step, std::int64_t column_step) {
    if (batch == 1)
      return {{rows, columns}, dnnl::memory::data_type::f32, Dims{row_step, column_step}};
    if (stride == 0) {
      return {{1, rows, columns},
              dnnl::memory::data_type::f32,
              Dims{rows * columns, row_step, column_step}};
    }
    return {
        {batch, rows, columns}, dnnl::memory::data_type::f32, Dims{stride, row_step, column_step}};
  }

  void add_tile(std::int64_t batch, std::int64_t row, std::int64_t column, std::int64_t count,
                std::int64_t rows, std::int64_t columns) {
    const plan::MatmulStep& s = step_;
    const Desc a = matrix(count, rows, s.k, s.stride_a, row_step_a(), depth_step_a());
    const Desc b = matrix(count, s.k, columns, s.stride_b, depth_step_b(), column_step_b());
    const Desc c = matrix(count, rows, columns, s.stride_c, s.ldc, 1);
    Tile tile{batch, row, column, {}, {}, {}, {}, {}, dnnl::stream(engine())};
    // oneDNN caches primitives: tiles of one shape share the code.
    tile.primitive = dnnl::matmul({dnnl::matmul::desc(a, b, c), engine()});
    tile.a = dnnl::memory(a, engine(), nullptr);
    tile.b = dnnl::memory(b, engine(), nullptr);
    tile.c = dnnl::memory(c, engine(), nullptr);
    tile.arguments = {{DNNL_ARG_SRC, tile.a}, {DNNL_ARG_WEIGHTS, tile.b}, {DNNL_ARG_DST, tile.c}};
    tiles_.push_back(std::move(tile));
  }

  void run_tile(Tile& tile, const float* a, const float* b, float* c) const {
    a += step_.offset_a + tile.batch * step_.stride_a + tile.row * row_step_a();
    b += step_.offset_b + tile.batch * step_.stride_b + tile.column * column_step_b();
    c += tile.batch * step_.stride_c + tile.row * step_.ldc + tile.column;
    tile.a.set_data_handle(const_cast<float*>(a));
    tile.b.set_data_handle(const_cast<float*>(b));
    tile.c.set_data_handle(c);
    tile.primitive.execute(tile.stream, tile.arguments);
  }

  plan::MatmulStep step_;
  std::mutex mutex_;
  std::vector<Tile> tiles_;
  std::int64_t grain_ = 1;
};

}  // namespace

std::unique_ptr<Matmul> make_onednn_matmul(const plan::MatmulStep& step) {
  try {
    return std::make_unique<OneDnnMatmul>(fold_batch(step));
  } catch (const dnnl::error& error) {
    throw BackendError(
        fmt::format("matmul: oneDNN cannot prepare [{}, {}] x [{}, {}], batch {}: {}", step.m,
                    step.k, step.k, step.n, step.batch, error.what()));
  }
}

}  // namespace volta::cpu

#else

namespace volta::cpu {

std::unique_ptr<Matmul> make_onednn_matmul(const plan::MatmulStep&) { return nullptr; }

}  // namespace volta::cpu

#endif
