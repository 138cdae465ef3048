// The position of a launch: the current outer point and block, and from them every index and the
// lanes that its masks admit. Everything is inline because indices are computed for every
// instruction of every block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/executor/block_launch.h"

namespace volta::cpu {

constexpr std::size_t at(std::int64_t n) { return static_cast<std::size_t>(n); }

// The elements that a section works on: lanes [0, n) from `position` of the flattened vector axes.
struct Block {
  std::int64_t n = 1;
  std::int64_t position = 0;
  int runs = 1;  // pieces within which every index is affine
  // In turned (transposed) launches: the band and column, this block's row in the band, and the
  // number of rows if they are adjacent (0 if not). In mode Lanes: the block's number, and the
  // current and the total number of Red points.
  std::int64_t band = 0, band_row = 0, band_rows = 0;
  bool first = false;  // contains the first iteration point, in lane 0
};

struct Interval {
  std::int64_t begin, end;
};

// The part of `lanes` in which 0 <= start + i * step < high.
inline Interval valid_lanes(std::int64_t start, std::int64_t step, std::int64_t high,
                            Interval lanes) {
  if (step == 0) return start >= 0 && start < high ? lanes : Interval{0, 0};
  if (step < 0) {
    // A negative step is reflected: high - 1 - value increases over the same range.
    start = high - 1 - start;
    step = -step;
  }
  const auto ceil_div = [step](std::int64_t value) {
    return step == 1 ? value : (value + step - 1) / step;
  };
  const std::int64_t begin = start >= 0 ? 0 : ceil_div(-start);
  const std::int64_t end = start >= high ? 0 : ceil_div(high - start);
  return {std::max(lanes.begin, begin), std::min(lanes.end, end)};
}

// The numbers that the cursor keeps for each affine index are stored in memory that the caller
// provides.
class BlockCursor {
 public:
  // How many numbers that memory must hold.
  static std::size_t numbers(const Launch& launch) {
    const std::size_t affines = launch.affines.size();
    return 2 * affines + (launch.flat ? (affines + 1) * at(kBlock + 1) : 0);
  }

  BlockCursor(const Launch& launch, std::int64_t* room)
      : launch_(launch),
        outer_at_(room),
        vec_at_(outer_at_ + launch.affines.size()),
        run_lane_(launch.flat ? vec_at_ + launch.affines.size() : nullptr),
        run_at_(launch.flat ? run_lane_ + kBlock + 1 : nullptr) {
    for (std::size_t n = 0; n < launch.affines.size(); ++n) {
      outer_at_[n] = launch.affines[n].base;
      vec_at_[n] = 0;
    }
  }

  void set_outer(std::int64_t point) {
    const std::size_t dims = launch_.outer_extents.size();
    if (dims == 0) return;
    if (dims == 1) {
      for (std::size_t n = 0; n < launch_.affines.size(); ++n) {
        const BoundAffine& affine = launch_.affines[n];
        outer_at_[n] = affine.base + launch_.coefficients[affine.outer] * point;
      }
      return;
    }
    std::int64_t digits[32];
    split(point, launch_.outer_extents, dims, digits);
    for (std::size_t n = 0; n < launch_.affines.size(); ++n) {
      const BoundAffine& affine = launch_.affines[n];
      outer_at_[n] = affine.base + dot(affine.outer, digits, dims);
    }
  }

  Block set_block(std::int64_t b) {
    if (launch_.flat) return set_flat_block(b);
    Block block;
    const std::size_t dims = launch_.vec_extents.size();
    const std::int64_t last = launch_.vec_extents.back();
    std::int64_t row = dims == 1 ? 0 : b / launch_.row_blocks;
    std::int64_t column = b - row * launch_.row_blocks;
    if (launch_.together > 1 && launch_.outer_extents.empty()) return set_rows(b);
    if (launch_.turned) turn(b, row, column, block);
    const std::int64_t start = column * launch_.block;
    block.n = std::min(launch_.block, last - start);
    block.position = row * last + start;
    std::int64_t digits[32];
    if (dims > 1) split(row, launch_.vec_extents, dims - 1, digits);
    if (launch_.turned) {
      const std::int64_t top = digits[dims - 2] - block.band_row;
      if (top < 0 || top + block.band_rows > launch_.vec_extents[dims - 2]) block.band_rows = 0;
    }
    for (std::size_t n = 0; n < launch_.affines.size(); ++n) {
      const BoundAffine& affine = launch_.affines[n];
      vec_at_[n] = affine.step * (affine.linear ? block.position : start);
      if (!affine.linear) vec_at_[n] += dot(affine.vec, digits, dims - 1);
    }
    return block;
  }

  // The lane at which a run of a flat block starts; after the last run, the block's end.
  std::int64_t run_lane(int run) const { return run_lane_[run]; }

  std::int64_t index_at(int affine, int run, std::int64_t lane) const {
    const BoundAffine& self = launch_.affines[at(affine)];
    if (self.linear) return outer_at_[affine] + vec_at_[affine] + self.step * lane;
    const std::int64_t start = run == 0 ? vec_at_[affine] : run_at_[affine * kBlock + run];
    return outer_at_[affine] + start;
  }

  // Calls fn(lane, n, index) for each piece of the block in which the site's index is affine and
  // its masks hold, and skipped(lane, n) for the lanes between the pieces.
  template <class Fn, class Skipped>
  void each_run(const BoundSite& site, const Block& block, Fn&& fn, Skipped&& skipped) const {
    const int runs = site.linear ? 1 : block.runs;
    for (int r = 0; r < runs; ++r) {
      const std::int64_t lane = runs == 1 ? 0 : run_lane_[r];
      const std::int64_t n = (runs == 1 ? block.n : run_lane_[r + 1]) - lane;
      Interval valid{0, n};
      for (int m = 1; m <= site.masks; ++m) {
        const BoundAffine& mask = launch_.affines[at(site.affine + m)];
        valid = valid_lanes(index_at(site.affine + m, r, lane), mask.step, mask.high, valid);
      }
      if (valid.begin >= valid.end) {
        skipped(lane, n);
        continue;
      }
      if (valid.begin > 0) skipped(lane, valid.begin);
      const std::int64_t step = launch_.affines[at(site.affine)].step;
      fn(lane + valid.begin, valid.end - valid.begin,
         index_at(site.affine, r, lane) + step * valid.begin);
      if (valid.end < n) skipped(lane + valid.end, n - valid.end);
    }
  }

  bool simple(const BoundSite& site, const Block& block) const {
    return site.masks == 0 && (site.linear || block.runs == 1);
  }

  // Whether the block is a single piece in which no mask excludes a lane.
  bool unmasked(const BoundSite& site, const Block& block) const {
    if (!site.linear && block.runs != 1) return false;
    Interval valid{0, block.n};
    for (int m = 1; m <= site.masks; ++m) {
      const BoundAffine& mask = launch_.affines[at(site.affine + m)];
      valid = valid_lanes(index_at(site.affine + m, 0, 0), mask.step, mask.high, valid);
    }
    return valid.begin == 0 && valid.end == block.n;
  }

 private:
  static void split(std::int64_t point, const std::vector<std::int64_t>& extents, std::size_t dims,
                    std::int64_t* digits) {
    for (std::size_t d = dims; d-- > 1;) {
      digits[d] = point % extents[d];
      point /= extents[d];
    }
    digits[0] = point;
  }

  std::int64_t dot(std::uint32_t first, const std::int64_t* digits, std::size_t dims) const {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < dims; ++d) sum += launch_.coefficients[first + d] * digits[d];
    return sum;
  }

  // Finds block b in band order: all rows of a band, then the next column.
  void turn(std::int64_t b, std::int64_t& row, std::int64_t& column, Block& block) const {
    const std::int64_t rows = launch_.vec_points / launch_.vec_extents.back();
    const std::int64_t band = b / (kBand * launch_.row_blocks);
    const std::int64_t height = std::min(kBand, rows - band * kBand);
    const std::int64_t within = b - band * kBand * launch_.row_blocks;
    column = within / height;
    block.band = band * launch_.row_blocks + column;
    block.band_row = within % height;
    block.band_rows = height;
    row = band * kBand + block.band_row;
  }

  // A block of several consecutive rows. Indices that vary only along the row stay at its start.
  Block set_rows(std::int64_t b) {
    Block block;
    const std::int64_t length = launch_.together * launch_.vec_extents.back();
    block.position = b * length;
    block.n = std::min(length, launch_.vec_points - block.position);
    for (std::size_t n = 0; n < launch_.affines.size(); ++n) {
      const BoundAffine& affine = launch_.affines[n];
      vec_at_[n] = affine.linear ? affine.step * block.position : 0;
    }
    return block;
  }

  // A block over several short rows: the start of each row's piece, and every index there.
  Block set_flat_block(std::int64_t b) {
    Block block;
    const std::size_t dims = launch_.vec_extents.size();
    const std::int64_t last = launch_.vec_extents.back();
    block.position = b * kBlock;
    block.n = std::min(kBlock, launch_.vec_points - block.position);
    block.runs = 0;
    std::int64_t row = block.position / last, column = block.position % last;
    std::int64_t digits[32];
    split(row, launch_.vec_extents, dims - 1, digits);
    for (std::int64_t lane = 0; lane < block.n; lane += last - column, column = 0) {
      if (lane > 0) advance(digits, dims - 1);
      run_lane_[block.runs] = lane;
      for (std::size_t n = 0; n < launch_.affines.size(); ++n) {
        const BoundAffine& affine = launch_.affines[n];
        if (affine.linear) continue;
        run_at_[n * at(kBlock) + at(block.runs)] =
            dot(affine.vec, digits, dims - 1) + affine.step * column;
      }
      ++block.runs;
    }
    run_lane_[block.runs] = block.n;
    for (std::size_t n = 0; n < launch_.affines.size(); ++n) {
      const BoundAffine& affine = launch_.affines[n];
      vec_at_[n] = affine.linear ? affine.step * block.position : run_at_[n * at(kBlock)];
    }
    return block;
  }

  void advance(std::int64_t* digits, std::size_t dims) const {
    for (std::size_t d = dims; d-- > 0;) {
      if (++digits[d] < launch_.vec_extents[d] || d == 0) return;
      digits[d] = 0;
    }
  }

  const Launch& launch_;
  std::int64_t* const outer_at_;
  std::int64_t* const vec_at_;
  // Flat launches use these.
  std::int64_t* const run_lane_;  // the lane at which each run starts, then the end
  std::int64_t* const run_at_;    // per affine and run: position along the vector axes
};

}  // namespace volta::cpu
