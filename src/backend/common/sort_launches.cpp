// Chooses the sort kernels for given sizes. A row that fits a tile is sorted by one launch; longer
// rows are sorted tile by tile and merged in pairs. Runs are cut to the number of keys wanted.
#include "backend/common/sort_launches.h"

#include <algorithm>
#include <bit>

namespace volta {
namespace {

constexpr int kTiles[] = {64, 256, 1024, kernel::kSortTile};

int tile_of(std::int64_t length) {
  for (const int tile : kTiles) {
    if (length <= tile) return tile;
  }
  return kernel::kSortTile;
}

constexpr std::uint64_t aligned(std::uint64_t bytes) { return (bytes + 255) & ~std::uint64_t{255}; }

// Sorted runs of (key, index) pairs after a pass.
struct Runs {
  std::int64_t runs, width;
  std::int64_t elements(std::int64_t rows) const { return rows * runs * width; }
};

// The runs after sorting the tiles and after each merge; the last entry has one run per row.
std::vector<Runs> passes(const plan::SortStep& step) {
  const std::int64_t tile = tile_of(step.length);
  std::vector<Runs> result{{(step.length + tile - 1) / tile, std::min(tile, step.count)}};
  while (result.back().runs > 1) {
    const Runs& from = result.back();
    result.push_back({(from.runs + 1) / 2, std::min(2 * from.width, step.count)});
  }
  return result;
}

bool is_empty(const plan::SortStep& step) { return step.rows == 0 || step.count == 0; }

// The number of elements in each of the two buffers between which the merges alternate.
std::int64_t place_elements(const plan::SortStep& step) {
  std::int64_t most = 0;
  const std::vector<Runs> all = passes(step);
  for (std::size_t n = 0; n + 1 < all.size(); ++n)
    most = std::max(most, all[n].elements(step.rows));
  return most;
}

}  // namespace

std::uint64_t sort_scratch_bytes(const plan::SortStep& step) {
  if (is_empty(step)) return 0;
  const auto elements = static_cast<std::uint64_t>(place_elements(step));
  return 2 * (aligned(elements * kernel::sort_key_bytes(step.dtype)) + aligned(elements * 4));
}

std::vector<SortLaunch> sort_launches(const plan::SortStep& step, kernel::Dialect dialect) {
  std::vector<SortLaunch> launches;
  if (is_empty(step)) return launches;
  const auto elements = static_cast<std::uint64_t>(place_elements(step));
  const std::uint64_t key_bytes = aligned(elements * kernel::sort_key_bytes(step.dtype)),
                      position_bytes = aligned(elements * 4);
  const auto add_place = [&](std::vector<plan::BufferRef>& buffers, std::size_t pass) {
    plan::BufferRef keys = step.scratch;
    keys.offset += pass % 2 * (key_bytes + position_bytes);
    plan::BufferRef positions = keys;
    positions.offset += key_bytes;
    buffers.push_back(keys);
    buffers.push_back(positions);
  };
  kernel::SortOptions options{.dtype = step.dtype,
                              .index_dtype = step.index_dtype,
                              .descending = step.descending,
                              .has_values = step.has_values,
                              .tile = tile_of(step.length)};
  const std::vector<Runs> all = passes(step);
  for (std::size_t n = 0; n < all.size(); ++n) {
    options.last = n + 1 == all.size();
    SortLaunch launch;
    launch.buffers = {step.keys};
    const Runs& from = all[n == 0 ? 0 : n - 1];
    if (n == 0) {
      launch.source = kernel::emit_sort_tiles(options, dialect);
      launch.threads = kernel::sort_tile_threads(options.tile);
      launch.blocks = step.rows * from.runs;
    } else {
      launch.source = kernel::emit_sort_merge(options, dialect);
      launch.threads = kernel::kSortThreads;
      launch.blocks = (from.elements(step.rows) + kernel::kSortThreads - 1) / kernel::kSortThreads;
      add_place(launch.buffers, n - 1);
    }
    if (options.last) {
      launch.buffers.push_back(step.indices);
      if (step.has_values) launch.buffers.push_back(step.values);
    } else {
      add_place(launch.buffers, n);
    }
    launch.ints = {step.rows, step.length, step.count, from.runs, from.width, all[n].width};
    launches.push_back(std::move(launch));
  }
  return launches;
}

}  // namespace volta
