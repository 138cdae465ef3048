// Chooses tiles. Large tiles reuse most of the data they stage in local memory; small tiles, slices
// and chunks of k keep the device busy when there would be too few large tiles.
#include "backend/common/gemm_launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace volta {
namespace {

using kernel::GemmOptions;
using kernel::GemmTile;
using plan::MatmulStep;

// The rows or columns of a narrow tile.
constexpr std::int64_t kThin = 16;
// The number of blocks of each size that fill a large GPU of 132 multiprocessors: two of the
// largest on each, nearly one of the others.
constexpr std::int64_t kManyLarge = 256, kManyMiddle = 100, kManySmall = 128;
// The least part of k that is worth its own block (chunk) or its own threads (slice).
constexpr std::int64_t kChunk = 1024, kThinChunk = 256;
constexpr std::int64_t kFourSlices = 512, kTwoSlices = 128;

constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max();

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t tiles_of(const MatmulStep& s, std::int64_t rows, std::int64_t columns) {
  return s.batch * ceil_div(s.m, rows) * ceil_div(s.n, columns);
}

int slices_of(std::int64_t k) { return k >= kFourSlices ? 4 : k >= kTwoSlices ? 2 : 1; }

// The number of chunks that makes at least `wanted` blocks of `tiles` tiles, each chunk at least
// `shortest` long.
std::int64_t chunks_of(std::int64_t k, std::int64_t tiles, std::int64_t wanted,
                       std::int64_t shortest) {
  return std::max<std::int64_t>(1, std::min(ceil_div(wanted, tiles), k / shortest));
}

GemmCut sliced(const MatmulStep& s, GemmTile tile, std::int64_t chunks) {
  tile.slices = slices_of(s.k / chunks);
  return {tile, chunks};
}

// Whether every row and matrix is aligned to vectors and consists of whole vectors.
bool whole_vectors(DType dtype, std::int64_t extent, std::int64_t leading, std::int64_t stride,
                   std::int64_t offset) {
  const int vector = kernel::gemm_vector(dtype);
  return extent % vector == 0 && leading % vector == 0 && stride % vector == 0 &&
         offset % vector == 0;
}

// The number of elements from a matrix's first to its last.
std::int64_t span_of(std::int64_t rows, std::int64_t leading, std::int64_t columns) {
  return std::max<std::int64_t>(0, rows - 1) * leading + columns;
}

GemmOptions options_of(const MatmulStep& s) {
  GemmOptions options{.dtype = s.dtype,
                      .result_dtype = s.result_dtype(),
                      .transpose_a = s.transpose_a,
                      .transpose_b = s.transpose_b};
  const std::int64_t columns_a = s.transpose_a ? s.m : s.k, rows_a = s.transpose_a ? s.k : s.m,
                     columns_b = s.transpose_b ? s.k : s.n, rows_b = s.transpose_b ? s.n : s.k;
  options.vector_a = whole_vectors(s.dtype, columns_a, s.lda, s.stride_a, s.offset_a);
  options.vector_b = whole_vectors(s.dtype, columns_b, s.ldb, s.stride_b, s.offset_b);
  options.vector_c = whole_vectors(s.dtype, s.n, s.ldc, s.stride_c, 0);
  options.index64 = std::max({span_of(rows_a, s.lda, columns_a), span_of(rows_b, s.ldb, columns_b),
                              span_of(s.m, s.ldc, s.n)}) > std::numeric_limits<std::int32_t>::max();
  return options;
}

kernel::GemmIntegers integers_of(const MatmulStep& s) {
  return {.m = s.m,
          .n = s.n,
          .k = s.k,
          .batch = s.batch,
          .lda = s.lda,
          .ldb = s.ldb,
          .ldc = s.ldc,
          .stride_a = s.stride_a,
          .stride_b = s.stride_b,
          .stride_c = s.stride_c,
          .offset_a = s.offset_a,
          .offset_b = s.offset_b};
}

std::vector<std::int64_t> words(const kernel::GemmIntegers& n) {
  const auto all = std::bit_cast<std::array<std::int64_t, kernel::kGemmIntegers>>(n);
  return {all.begin(), all.end()};
}

bool is_empty(const MatmulStep& s) { return s.batch == 0 || s.m == 0 || s.n == 0; }

}  // namespace

bool gemm_takes(const MatmulStep& s) {
  // The number of blocks for the smallest tiles, which have 16 rows and columns.
  const std::int64_t most = tiles_of(s, kThin, kThin);
  return is_floating(s.dtype) && most <= kMaxBlocks && s.k <= kMaxBlocks / 2;
}

GemmCut choose_gemm(const MatmulStep& s) {
  const bool wide = s.dtype == DType::f64;
  const int depth = wide ? 8 : 16;
  if (s.m <= kThin || s.n <= kThin) {
    const GemmTile tile{.rows = s.n <= kThin ? 64 : 16,
                        .columns = s.n <= kThin ? 16 : 64,
                        .depth = depth,
                        .thread_tile = 4};
    return sliced(s, tile,
                  chunks_of(s.k, tiles_of(s, tile.rows, tile.columns), kManySmall, kThinChunk));
  }
  if (!wide && tiles_of(s, 128, 128) >= kManyLarge)
    return {{.rows = 128, .columns = 128, .depth = 8, .thread_tile = 8}, 1};
  const std::int64_t middle = tiles_of(s, 64, 64);
  if (const std::int64_t chunks = chunks_of(s.k, middle, kManyMiddle, kChunk);
      middle * chunks >= kManyMiddle) {
    if (wide) return {{.rows = 64, .columns = 64, .depth = 8, .thread_tile = 4}, chunks};
    return sliced(s, {.rows = 64, .columns = 64, .depth = 8, .thread_tile = 8}, chunks);
  }
  return sliced(s, {.rows = 32, .columns = 32, .depth = depth, .thread_tile = 4},
                chunks_of(s.k, tiles_of(s, 32, 32), kManySmall, kChunk));
}

std::vector<GemmCut> gemm_cuts(const MatmulStep& s) {
  const GemmCut usual = choose_gemm(s);
  const bool wide = s.dtype == DType::f64, thin = s.m <= kThin || s.n <= kThin;
  std::vector<GemmCut> cuts{usual};
  const auto add = [&](GemmTile tile, std::int64_t chunks) {
    const GemmCut cut{tile, chunks};
    if (chunks >= 1 && chunks * kThinChunk <= std::max(s.k, kThinChunk) &&
        std::ranges::find(cuts, cut) == cuts.end())
      cuts.push_back(cut);
  };
  for (const int slices : {1, 2, 4}) {
    GemmTile tile = usual.tile;
    tile.slices = slices;
    // The largest tile leaves no registers for more slices, and the largest f64 tile no local
    // memory.
    const bool whole = tile.rows == 128 || (wide && tile.rows == 64 && tile.columns == 64);
    if (!whole && s.k >= kTwoSlices / 2 * slices) add(tile, usual.chunks);
  }
  add(usual.tile, 2 * usual.chunks);
  add(usual.tile, usual.chunks / 2);
  const GemmCut other[] = {
      {{.rows = 128, .columns = 128, .depth = 8, .thread_tile = 8}, 1},
      sliced(s, {.rows = 64, .columns = 64, .depth = 8, .thread_tile = wide ? 4 : 8}, 1),
      sliced(s, {.rows = 32, .columns = 32, .depth = wide ? 8 : 16, .thread_tile = 4}, 1)};
  for (const GemmCut& cut : other) {
    const bool same_size = cut.tile.rows == usual.tile.rows;
    if (thin || same_size || (wide && cut.tile.rows == 128)) continue;
    GemmTile tile = cut.tile;
    if (wide && tile.rows == 64) tile.slices = 1;
    add(tile, usual.chunks);
    add(tile, 1);
  }
  return cuts;
}

std::string name_of(const GemmCut& cut) {
  return fmt::format("{}x{} depth {} thread {} slices {} chunks {}", cut.tile.rows,
                     cut.tile.columns, cut.tile.depth, cut.tile.thread_tile, cut.tile.slices,
                     cut.chunks);
}

GemmCut gemm_cut(const MatmulStep& step) {
  if (!step.cut.empty()) {
    for (const GemmCut& cut : gemm_cuts(step)) {
      if (name_of(cut) == step.cut) return cut;
    }
  }
  return choose_gemm(step);
}

GemmLaunches gemm_launches(const MatmulStep& s, const GemmCut& cut, kernel::Dialect dialect) {
  using Buffer = GemmLaunch::Buffer;
  GemmLaunches result;
  if (is_empty(s)) return result;
  const GemmTile& tile = cut.tile;
  GemmOptions options = options_of(s);
  options.tile = tile;
  kernel::GemmIntegers ints = integers_of(s);
  ints.tiles_m = ceil_div(s.m, tile.rows);
  ints.tiles_n = ceil_div(s.n, tile.columns);
  ints.slice = ceil_div(ceil_div(s.k, cut.chunks * tile.slices), tile.depth) * tile.depth;
  ints.chunks =
      std::max<std::int64_t>(1, ceil_div(s.k, std::max<std::int64_t>(1, ints.slice) * tile.slices));
  const std::int64_t blocks = ints.chunks * s.batch * ints.tiles_m * ints.tiles_n;
  if (ints.chunks == 1) {
    result.launches.push_back({kernel::emit_gemm(options, dialect),
                               tile.threads(),
                               blocks,
                               {Buffer::A, Buffer::B, Buffer::C},
                               words(ints)});
    return result;
  }
  const DType sum = kernel::gemm_sum_dtype(s.dtype);
  const std::int64_t results = s.batch * s.m * s.n;
  const kernel::KernelSource add = kernel::emit_gemm_sum(options, dialect);
  const std::vector<std::int64_t> add_ints = words(ints);
  options.result_dtype = sum;
  ints.ldc = s.n;
  ints.stride_c = s.m * s.n;
  options.vector_c = whole_vectors(sum, s.n, ints.ldc, ints.stride_c, 0);
  result.partial_bytes =
      static_cast<std::uint64_t>(ints.chunks * results) * static_cast<std::uint64_t>(size_of(sum));
  result.launches = {{kernel::emit_gemm(options, dialect),
                      tile.threads(),
                      blocks,
                      {Buffer::A, Buffer::B, Buffer::Partial},
                      words(ints)},
                     {add,
                      kernel::kGemmSumThreads,
                      ceil_div(results, kernel::kGemmSumThreads),
                      {Buffer::Partial, Buffer::C},
                      add_ints}};
  return result;
}

GemmLaunches gemm_strip_launches(const MatmulStep& s) {
  using Buffer = GemmLaunch::Buffer;
  GemmLaunches result;
  if (is_empty(s)) return result;
  GemmOptions options = options_of(s);
  options.vector_a = options.vector_b = options.vector_c = false;
  kernel::GemmIntegers ints = integers_of(s);
  ints.tiles_m = ceil_div(s.m, kernel::kGemmStripRows);
  ints.tiles_n = ceil_div(s.n, kernel::kGemmStripColumns);
  result.launches.push_back({kernel::emit_gemm_strip(options),
                             1,
                             s.batch * ints.tiles_m * ints.tiles_n,
                             {Buffer::A, Buffer::B, Buffer::C},
                             words(ints)});
  return result;
}

}  // namespace volta
