// Chooses the number of chunks into which reductions are split.
#include "plan/lower/split.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace volta::plan {
namespace {

// Column sums on a GPU are not split if there are kManyColumns columns, which keep it busy, or if
// columns are shorter than kShortColumn rows. They have at most kMostChunks chunks. With fewer than
// kSharedColumns columns, lanes share a column (choose_schedule).
constexpr std::int64_t kManyColumns = 65536, kShortColumn = 128, kMostChunks = 8192,
                       kSharedColumns = 2048;

}  // namespace

std::int64_t even_chunks(std::int64_t extent, std::int64_t wanted, std::int64_t unit) {
  for (std::int64_t chunks = wanted; chunks > wanted / 2 && chunks > 1; --chunks) {
    if (extent % (chunks * unit) == 0) return chunks;
  }
  return wanted;
}

Extent open_even_chunks(Extent extent, Extent wanted, Extent unit) {
  return evaluated(
      [](std::span<const std::int64_t> a) {
        return even_chunks(a[0], a[1], std::max(a[2], INT64_C(1)));
      },
      {extent, wanted, unit});
}

Extent open_reduction_chunks(Extent extent, Extent results, bool innermost,
                             bool massively_parallel) {
  return evaluated(
      [](std::span<const std::int64_t> a) {
        return reduction_chunks(a[0], std::max(a[1], INT64_C(1)), a[2] != 0, a[3] != 0);
      },
      {extent, results, innermost, massively_parallel});
}

bool keeps_busy(std::int64_t extent, std::int64_t results, bool innermost,
                bool massively_parallel) {
  if (massively_parallel && !innermost) return results >= kManyColumns || extent < kShortColumn;
  return reduction_chunks(extent, results, innermost, massively_parallel) == 1;
}

std::int64_t reduction_chunks(std::int64_t extent, std::int64_t results, bool innermost,
                              bool massively_parallel) {
  if (innermost) {  // rows are shared by threads
    if (results >= 128 || extent <= 8192) return 1;
    const std::int64_t chunks = (extent + 4095) / 4096;
    if (!massively_parallel) return std::min<std::int64_t>(chunks, 2048);
    // The number of blocks of 256 threads that fill the largest GPU at once.
    const std::int64_t most = std::max<std::int64_t>(1056 / results, 16);
    return even_chunks(extent, std::min(chunks, most), kChunkUnit);
  }
  // A column is computed by one thread or lane.
  if (!massively_parallel) {
    if (results >= 1024 || extent < 4096) return 1;
    return std::min(1024 / results, extent / 16);
  }
  // `busy` is the number of parallel sums that keep the memory busy if they are not too short. One
  // kernel adds up the chunks' results by lanes that share a column; for few elements it computes
  // everything.
  const std::int64_t busy = std::int64_t{1} << (results < 128 ? 18 : 19);
  if (results >= kManyColumns || extent < kShortColumn) return 1;
  if (results < kSharedColumns && results * extent <= busy && extent <= kMostChunks) return 1;
  const auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(extent)));
  const auto balanced = static_cast<std::int64_t>(std::bit_floor(root));
  const std::int64_t most =
      std::max(balanced, std::min({busy / results, extent / 16, kMostChunks}));
  return even_chunks(extent, std::min((std::int64_t{1} << 19) / results, most), 1);
}

}  // namespace volta::plan
