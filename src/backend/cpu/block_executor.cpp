// Execution of a bound launch: for each unit, its sections block by block over registers in scratch
// memory.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

#include "backend/cpu/block_launch.h"
#include "backend/cpu/reduction.h"
#include "hwy/base.h"
#include "hwy/cache_control.h"

namespace volta::cpu {
namespace {

using kernel::Instr;

constexpr std::size_t at(std::int64_t n) { return static_cast<std::size_t>(n); }

// The elements a section works on: lanes [0, n) at `position` of the flattened vector axes.
struct Block {
  std::int64_t n = 1;
  std::int64_t position = 0;
  int runs = 1;  // pieces within which every index is affine
  // Turned launches: the band's column, this block's row in the band, and the rows if they are
  // neighbours (0: they are not). Lanes: the block, the current row of all.
  std::int64_t band = 0, band_row = 0, band_rows = 0;
  bool first = false;  // holds the first iteration point, in lane 0
};

struct Interval {
  std::int64_t begin, end;
};

// Lanes i < n with 0 <= start + i * step < high, met with `lanes`.
Interval valid_lanes(std::int64_t start, std::int64_t step, std::int64_t high, Interval lanes) {
  if (step == 0) return start >= 0 && start < high ? lanes : Interval{0, 0};
  if (step < 0) {
    // Mirrored: high - 1 - value runs upwards over the same range.
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

// One converted number, to lane 0; like every kernel this may touch a whole vector.
template <class T>
void put_number(void* out, DType dtype, T value) {
  if (std::is_same_v<T, double> && dtype == DType::f32) {
    *static_cast<float*>(out) = static_cast<float>(value);
    return;
  }
  if (dtype == dtype_of<T>::value) {
    *static_cast<T*>(out) = value;
    return;
  }
  alignas(64) T vector[64 / sizeof(T)] = {value};
  simd().cast[type_index(dtype_of<T>::value)][type_index(dtype)](out, vector, nullptr, nullptr, 1);
}

void put_constant(void* out, DType dtype, double value) {
  if (is_floating(dtype)) return put_number(out, dtype, value);
  put_number(out, dtype, static_cast<std::int64_t>(value));
}

std::int64_t read_integer(const void* from, std::int64_t lane, DType dtype) {
  switch (dtype) {
    case DType::i32:
      return static_cast<const std::int32_t*>(from)[lane];
    case DType::i64:
      return static_cast<const std::int64_t*>(from)[lane];
    default:
      return static_cast<const std::uint8_t*>(from)[lane];
  }
}

class Runner {
 public:
  Runner(const Launch& launch, const LaunchMemory& memory, std::byte* scratch)
      : launch_(launch),
        program_(*launch.program),
        table_(simd()),
        memory_(memory),
        scratch_(scratch) {
    std::byte* next = scratch;
    const auto take = [&next](std::size_t bytes) {
      std::byte* taken = next;
      next += (bytes + 63) / 64 * 64;
      return taken;
    };
    // Registers first: scratch memory starts a page.
    widening_ = at(launch.block / kBlock);
    registers_ = take(program_.register_bytes * widening_);
    narrow_ = take(program_.narrow_bytes);
    values_ = reinterpret_cast<void**>(take(program_.registers.size() * sizeof(void*)));
    outer_at_ = reinterpret_cast<std::int64_t*>(take(launch.affines.size() * sizeof(std::int64_t)));
    vec_at_ = reinterpret_cast<std::int64_t*>(take(launch.affines.size() * sizeof(std::int64_t)));
    if (launch.flat) {
      run_lane_ = reinterpret_cast<std::int64_t*>(
          take((launch.affines.size() + 1) * at(kBlock + 1) * sizeof(std::int64_t)));
      run_at_ = run_lane_ + kBlock + 1;
    }
    for (std::size_t n = 0; n < program_.registers.size(); ++n)
      values_[n] = home(static_cast<int>(n));
    for (const BoundSite& site : launch.sites) {
      if (site.tile != 0) *reinterpret_cast<std::int64_t*>(scratch + site.tile) = -1;
    }
    for (std::size_t n = 0; n < launch.affines.size(); ++n) {
      outer_at_[n] = launch.affines[n].base;
      vec_at_[n] = 0;
    }
  }

  void units(std::int64_t begin, std::int64_t end) {
    run_uniform(launch_.widest);
    switch (program_.mode) {
      case Mode::Map:
        run_map(begin, end);
        break;
      case Mode::Lanes:
        run_lanes(begin, end);
        break;
      case Mode::Rows:
        run_rows(begin, end);
        break;
    }
    if (launch_.streams) hwy::FlushStream();
  }

  void uniform_stores() {
    run_uniform(1);
    for (const Code& code : program_.uniform_stores) store(code, {.first = true});
  }

 private:
  void run_uniform(std::int64_t lanes) {
    for (const Code& code : program_.uniform) {
      execute(code, {});
      if (lanes > 1 && code.spread) splat(code.out, lanes);
    }
  }

  void run_map(std::int64_t begin, std::int64_t end) {
    const std::vector<Code>& body = program_.phases[0].par;
    for (std::int64_t b = begin; b < end; ++b) {
      Block block = set_block(b);
      block.first = b == 0;
      run_section(body, block);
    }
  }

  void run_lanes(std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      Block block = set_block(b);
      block.band = b;
      for (const Phase& phase : program_.phases) {
        block.first = b == 0;
        block.band_rows = 0;
        run_section(phase.par, block);
        const std::vector<Code>& body = launch_.keep ? phase.kept : phase.again;
        if (body.empty()) continue;
        block.band_rows = launch_.outer_points;
        if (program_.bound < 0 && (run_product(phase, block) || run_fold(phase, block))) continue;
        for (const int k : phase.reduces) begin_lanes(reduction(k), block.n);
        const std::int64_t points = points_of(block);
        if (points > 0) run_section(phase.inner, block);
        for (std::size_t k = 0; k < program_.scans.size(); ++k) begin_scan(k, block.n);
        for (std::int64_t i = 0; i < points; ++i) {
          const std::int64_t r = program_.scans_back ? points - 1 - i : i;
          set_outer(r);
          step_ = i;
          block.band_row = r;
          block.first = b == 0 && r == 0;
          place_kept(r * launch_.tile_stride);
          run_section(body, block);
        }
        for (const int k : phase.reduces) finish_lanes(reduction(k), points, block.n);
      }
    }
  }

  // The sum so far of a Scan, per lane (Rows: of the one row).
  std::byte* scan_sum(std::size_t k) const {
    return scratch_ + launch_.scan_sums + k * launch_.scan_bytes;
  }

  void begin_scan(std::size_t k, std::int64_t lanes) {
    const Instr& instr = program_.program.instrs[at(program_.scans[k])];
    const std::size_t bytes = at(lanes) * size_of(instr.dtype);
    if (instr.b < 0) {
      std::memset(scan_sum(k), 0, bytes);
    } else {
      std::memcpy(scan_sum(k), values_[instr.b], bytes);
    }
  }

  template <class T>
  void scan_block(const Code& code, const Block& block) {
    T sum = *reinterpret_cast<const T*>(scan_sum(at(code.site)));
    const T* from = static_cast<const T*>(values_[code.a]);
    T* to = static_cast<T*>(values_[code.out]);
    for (std::int64_t i = 0; i < block.n; ++i) {
      const std::int64_t lane = program_.scans_back ? block.n - 1 - i : i;
      sum = static_cast<T>(sum + from[lane]);
      to[lane] = sum;
    }
    *reinterpret_cast<T*>(scan_sum(at(code.site))) = sum;
  }

  HWY_NOINLINE void scan(const Code& code, const Block& block) {
    if (program_.mode == Mode::Lanes) {
      void* sum = scan_sum(at(code.site));
      code.fn(sum, sum, values_[code.a], values_[code.a], at(block.n));
      std::memcpy(values_[code.out], sum, at(block.n) * size_of(code.dtype));
      return;
    }
    switch (code.dtype) {
      case DType::f32:
        return scan_block<float>(code, block);
      case DType::f64:
        return scan_block<double>(code, block);
      case DType::i32:
        return scan_block<std::int32_t>(code, block);
      case DType::i64:
        return scan_block<std::int64_t>(code, block);
      default:
        return scan_block<std::uint8_t>(code, block);
    }
  }

  // Red points some lane of the block needs.
  std::int64_t points_of(const Block& block) const {
    if (program_.bound < 0) return launch_.outer_points;
    const DType dtype = program_.program.instrs[at(program_.bound)].dtype;
    std::int64_t longest = 0;
    for (std::int64_t lane = 0; lane < block.n; ++lane)
      longest = std::max(longest, read_integer(values_[program_.bound], lane, dtype));
    return std::min(longest, launch_.outer_points);
  }

  // Adds up products of two loads without going through registers, where the strides allow it.
  bool run_product(const Phase& phase, const Block& block) {
    if (phase.product_a < 0 || launch_.outer_extents.size() != 1) return false;
    const BoundSite& a = launch_.sites[at(phase.product_a)];
    const BoundSite& b = launch_.sites[at(phase.product_b)];
    if (a.masks > 0 || b.masks > 0) return false;
    const BoundAffine& at_a = launch_.affines[at(a.affine)];
    const BoundAffine& at_b = launch_.affines[at(b.affine)];
    const std::int64_t depth_a = launch_.coefficients[at_a.outer],
                       depth_b = launch_.coefficients[at_b.outer];
    const bool dots = depth_a == 1 && depth_b == 1 && (at_a.step == 0 || at_b.step == 0);
    if (!dots && !(at_a.step == 0 && at_b.step == 1) && !(at_a.step == 1 && at_b.step == 0))
      return false;
    set_outer(0);
    const ReduceSite& reduce = program_.reduces[at(phase.reduces[0])];
    std::byte* out = static_cast<std::byte*>(values_[reduce.instr]);
    const int type = type_index(reduce.dtype), runs = a.linear && b.linear ? 1 : block.runs;
    for (int r = 0; r < runs; ++r) {
      const std::int64_t lane = runs == 1 ? 0 : run_lane_[r];
      const std::size_t n = at((runs == 1 ? block.n : run_lane_[r + 1]) - lane);
      const void* left = memory_at(a, index_at(a.affine, r, lane), reduce.dtype);
      const void* right = memory_at(b, index_at(b.affine, r, lane), reduce.dtype);
      void* to = out + at(lane) * size_of(reduce.dtype);
      const std::int64_t depth = launch_.outer_points;
      if (dots && at_a.step == 0) {
        table_.dots[type](to, left, right, at_b.step, depth, n);
      } else if (dots) {
        table_.dots[type](to, right, left, at_a.step, depth, n);
      } else if (at_a.step == 0) {
        table_.product[type](to, left, depth_a, right, depth_b, depth, n);
      } else {
        table_.product[type](to, right, depth_b, left, depth_a, depth, n);
      }
    }
    return true;
  }

  // Reduces rows straight from memory, several at a time.
  bool run_fold(const Phase& phase, const Block& block) {
    if (phase.folded < 0 || launch_.outer_extents.size() != 1) return false;
    const BoundSite& site = launch_.sites[at(phase.folded)];
    const ReduceSite& reduce = program_.reduces[at(phase.reduces[0])];
    const BoundAffine& index = launch_.affines[at(site.affine)];
    const bool turned = site.tile != 0;
    if (site.masks > 0 || (index.step != 1 && !turned) || !simple(site, block) ||
        !folds_rows(reduce.op, reduce.dtype))
      return false;
    const std::int64_t stride = turned ? launch_.tile_stride : launch_.coefficients[index.outer];
    const std::int64_t rows = launch_.outer_points;
    set_outer(0);
    const void* from = memory_at(site, index_at(site.affine, 0, 0), reduce.dtype);
    if (turned) from = turn_tile(site, block, reduce.dtype, from);
    const Reduction target = reduction(phase.reduces[0]);
    begin_lanes(target, block.n);
    accumulate_lane_rows(target, from, stride, rows, block.n);
    finish_lanes(target, rows, block.n);
    return true;
  }

  void run_rows(std::int64_t begin, std::int64_t end) {
    for (std::int64_t point = begin; point < end; ++point) {
      set_outer(point);
      for (const Phase& phase : program_.phases) {
        run_section(phase.par, {.first = point == 0});
        for (const int value : phase.spread) splat(value, launch_.widest);
        const std::vector<Code>& body = launch_.keep ? phase.kept : phase.again;
        if (body.empty()) continue;
        for (const int k : phase.reduces) begin_row(reduction(k));
        for (std::size_t k = 0; k < program_.scans.size(); ++k) begin_scan(k, 1);
        for (std::int64_t i = 0; i < launch_.blocks; ++i) {
          const std::int64_t b = program_.scans_back ? launch_.blocks - 1 - i : i;
          Block block = set_block(b);
          block.first = point == 0 && b == 0;
          place_kept(block.position);
          run_section(body, block);
        }
        for (const int k : phase.reduces) finish_row(reduction(k));
      }
    }
  }

  Reduction reduction(int k) const {
    const ReduceSite& site = program_.reduces[at(k)];
    return {site.op,
            site.dtype,
            launch_.sum_levels,
            at(launch_.block) * sizeof(double),
            values_[at(site.instr)],
            scratch_ + launch_.accumulators + at(k) * launch_.accumulator_bytes,
            std::max<std::int64_t>(1, kRowRun / launch_.block)};
  }

  // Kept values of the current block start at element `position` of their rows.
  void place_kept(std::int64_t position) {
    if (!launch_.keep) return;
    for (std::size_t k = 0; k < program_.kept.size(); ++k) {
      const int value = program_.kept[k];
      values_[value] = scratch_ + launch_.row_at[k] +
                       at(position) * size_of(program_.program.instrs[at(value)].dtype);
    }
  }

  void splat(int value, std::int64_t lanes) {
    const DType dtype = program_.program.instrs[at(value)].dtype;
    table_.splat[size_index(dtype)](values_[value], values_[value], nullptr, nullptr, at(lanes));
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

  Block set_block(std::int64_t b) {
    if (launch_.flat) return set_flat_block(b);
    Block block;
    const std::size_t dims = launch_.vec_extents.size();
    const std::int64_t last = launch_.vec_extents.back();
    std::int64_t row = dims == 1 ? 0 : b / launch_.row_blocks;
    std::int64_t column = b - row * launch_.row_blocks;
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

  // Block b in the order of bands: all rows of a band, then the next column.
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

  // A block over several short rows: where each row's piece starts, and every index at those
  // places.
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

  std::int64_t index_at(int affine, int run, std::int64_t lane) const {
    const BoundAffine& self = launch_.affines[at(affine)];
    if (self.linear) return outer_at_[affine] + vec_at_[affine] + self.step * lane;
    const std::int64_t start = run == 0 ? vec_at_[affine] : run_at_[affine * kBlock + run];
    return outer_at_[affine] + start;
  }

  // Calls fn(lane, n, index) for each piece of the block within which the site's index is affine
  // and its masks hold, and skipped(lane, n) for the lanes between.
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

  // One piece of which no mask excludes anything.
  bool unmasked(const BoundSite& site, const Block& block) const {
    if (!site.linear && block.runs != 1) return false;
    Interval valid{0, block.n};
    for (int m = 1; m <= site.masks; ++m) {
      const BoundAffine& mask = launch_.affines[at(site.affine + m)];
      valid = valid_lanes(index_at(site.affine + m, 0, 0), mask.step, mask.high, valid);
    }
    return valid.begin == 0 && valid.end == block.n;
  }

  void run_section(const std::vector<Code>& section, const Block& block) {
    for (const Code& code : section) {
      if (code.kind == CodeKind::Compute) {
        if (code.direct >= 0) place_direct(code, block);
        code.fn(values_[code.out], values_[code.a], values_[code.b], values_[code.c], at(block.n));
      } else if (code.kind == CodeKind::Chain) {
        run_chain(code, block);
      } else {
        execute(code, block);
      }
    }
  }

  void execute(const Code& code, const Block& block) {
    switch (code.kind) {
      case CodeKind::Compute:
        return code.fn(values_[code.out], values_[code.a], values_[code.b], values_[code.c],
                       at(block.n));
      case CodeKind::Chain:
        return run_chain(code, block);
      case CodeKind::Load:
        return load(code, block);
      case CodeKind::Store:
        return store(code, block);
      case CodeKind::Accumulate:
        return accumulate(code, block);
      case CodeKind::Gather:
        return gather(code, block);
      case CodeKind::Index:
        return index(code, block);
      case CodeKind::Bounded:
        return bounded(code, block);
      case CodeKind::Search:
        return search(code, block);
      case CodeKind::Scan:
        return scan(code, block);
      case CodeKind::Philox:
        return philox(code, block);
      case CodeKind::Const:
        return put_constant(values_[code.out], code.dtype,
                            program_.program.instrs[at(code.out)].constant);
      case CodeKind::Arg:
        return argument(code);
    }
  }

  std::byte* home(int value) const {
    const std::size_t offset = program_.registers[at(value)];
    return program_.narrow[at(value)] ? narrow_ + offset : registers_ + offset * widening_;
  }

  void* memory_at(const BoundSite& site, std::int64_t index, DType dtype) const {
    return static_cast<std::byte*>(memory_.slots[site.slot]) +
           index * static_cast<std::int64_t>(size_of(dtype));
  }

  void run_chain(const Code& code, const Block& block) {
    ChainRun run{.steps = &program_.steps[code.first_step],
                 .count = code.step_count,
                 .values = values_,
                 .end = at(block.n),
                 .out = values_[code.out]};
    if (code.folds >= 0) return fold_chain(code, block, run);
    if (code.direct < 0) return code.chain(run);
    const BoundSite& site = launch_.sites[at(code.direct)];
    void* memory = direct_memory(code, site, block);
    const std::size_t whole = at(block.n / kPad * kPad), n = at(block.n);
    if (memory == nullptr || whole == 0 || (whole < n && !code.only)) {
      run.out = values_[code.out] = home(code.out);
      return code.chain(run);
    }
    run.out = values_[code.out] = memory;
    run.end = whole;
    run.stream = site.stream && reinterpret_cast<std::uintptr_t>(memory) % 64 == 0;
    code.chain(run);
    if (whole == n) return;
    // The rest does not fill whole vectors: through the register.
    run.begin = whole;
    run.end = n;
    run.out = home(code.out);
    run.stream = false;
    code.chain(run);
    const std::size_t size = size_of(code.dtype);
    std::memcpy(static_cast<std::byte*>(memory) + whole * size, home(code.out) + whole * size,
                (n - whole) * size);
  }

  // Whole groups are folded as they come, the rest of the row from its register.
  void fold_chain(const Code& code, const Block& block, ChainRun run) {
    const Reduction target = reduction(code.folds);
    const std::size_t whole = at(block.n / kPad * kPad), n = at(block.n);
    void* const out = run.out;
    if (whole > 0) {
      run.end = whole;
      run.lanes = target.state;
      run.fold = target.op;
      if (code.only) run.out = nullptr;
      code.chain(run);
    }
    if (whole == n) return folded_block(target);
    run.begin = whole;
    run.end = n;
    run.out = out;
    run.lanes = nullptr;
    code.chain(run);
    accumulate_row(target, static_cast<std::byte*>(out) + whole * size_of(code.dtype),
                   block.position, static_cast<std::int64_t>(n - whole));
  }

  // Where in memory a block of results may be computed; null where it is not one piece.
  void* direct_memory(const Code& code, const BoundSite& site, const Block& block) const {
    if (site.tile != 0) return tile_row(site, block, code.dtype);
    if (launch_.affines[at(site.affine)].step != 1 || !simple(site, block)) return nullptr;
    return memory_at(site, index_at(site.affine, 0, 0), code.dtype);
  }

  // The result goes to its register, or to the memory of its Store where whole vectors fit.
  void place_direct(const Code& code, const Block& block) {
    const BoundSite& site = launch_.sites[at(code.direct)];
    const bool whole = block.n % kPad == 0 && !site.stream;
    void* memory = whole ? direct_memory(code, site, block) : nullptr;
    values_[code.out] = memory != nullptr ? memory : home(code.out);
  }

  void load(const Code& code, const Block& block) {
    const BoundSite& site = launch_.sites[at(code.site)];
    const std::int64_t step = launch_.affines[at(site.affine)].step;
    const int size = size_index(code.dtype);
    std::byte* to = home(code.out);
    if (simple(site, block) || unmasked(site, block)) {
      const std::int64_t start = index_at(site.affine, 0, 0);
      void* from = memory_at(site, start, code.dtype);
      if (step == 1 && code.may_alias &&
          (block.n % kPad == 0 || start + padded(block.n) <= site.end)) {
        values_[code.out] = from;
        return;
      }
      if (site.tile != 0 && block.band_rows > 0) return load_turned(code, site, block, from);
      values_[code.out] = to;
      if (step == 0) return table_.splat[size](to, from, nullptr, nullptr, at(block.n));
      return table_.load_strided[size](to, from, step, at(block.n));
    }
    values_[code.out] = to;
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(code.dtype));
    each_run(
        site, block,
        [&](std::int64_t lane, std::int64_t n, std::int64_t start) {
          table_.load_strided[size](to + lane * bytes, memory_at(site, start, code.dtype), step,
                                    at(n));
        },
        [&](std::int64_t lane, std::int64_t n) { fill(code, to + lane * bytes, n); });
  }

  std::byte* tile_row(const BoundSite& site, const Block& block, DType dtype) const {
    return scratch_ + site.tile + kTileHeader +
           at(block.band_row * launch_.tile_stride) * size_of(dtype);
  }

  // The tile of a band; the first to get here reads the whole of it. `from`: its first row.
  const std::byte* turn_tile(const BoundSite& site, const Block& block, DType dtype,
                             const void* from) {
    std::int64_t* holds = reinterpret_cast<std::int64_t*>(scratch_ + site.tile);
    std::byte* tile = scratch_ + site.tile + kTileHeader;
    if (*holds != block.band) {
      *holds = block.band;
      table_.turn[size_index(dtype)](tile, launch_.tile_stride, from,
                                     launch_.affines[at(site.affine)].step, block.n,
                                     block.band_rows, true);
    }
    return tile;
  }
  void load_turned(const Code& code, const BoundSite& site, const Block& block, const void* from) {
    turn_tile(site, block, code.dtype,
              static_cast<const std::byte*>(from) - at(block.band_row) * size_of(code.dtype));
    values_[code.out] = tile_row(site, block, code.dtype);
  }

  // Lanes: results wait in a tile until the last row is there.
  void store_turned(const Code& code, const BoundSite& site, const Block& block) {
    std::byte* row = tile_row(site, block, code.dtype);
    if (values_[code.a] != row)
      std::memcpy(row, values_[code.a], at(block.n) * size_of(code.dtype));
    if (block.band_row + 1 < block.band_rows) return;
    table_.turn[size_index(code.dtype)](
        memory_at(site, index_at(site.affine, 0, 0) - block.band_row, code.dtype),
        launch_.affines[at(site.affine)].step, scratch_ + site.tile + kTileHeader,
        launch_.tile_stride, block.band_rows, block.n, false);
  }

  // Lanes a mask excludes take the fill value.
  HWY_NOINLINE void fill(const Code& code, std::byte* to, std::int64_t n) const {
    alignas(64) std::byte value[64];
    put_constant(value, code.dtype, program_.program.instrs[at(code.out)].constant);
    table_.load_strided[size_index(code.dtype)](to, value, 0, at(n));
  }

  HWY_NOINLINE void gather(const Code& code, const Block& block) {
    const BoundSite& site = launch_.sites[at(code.site)];
    const std::int64_t step = launch_.affines[at(site.affine)].step;
    const DType index_dtype = program_.program.instrs[at(code.a)].dtype;
    const int size = size_index(code.dtype);
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(code.dtype));
    const std::int64_t index_bytes = static_cast<std::int64_t>(size_of(index_dtype));
    std::byte* to = static_cast<std::byte*>(values_[code.out]);
    const std::byte* indices = static_cast<const std::byte*>(values_[code.a]);
    each_run(
        site, block,
        [&](std::int64_t lane, std::int64_t n, std::int64_t start) {
          // With one index for the run this is a row copy. Linear sites do not see where runs end.
          if (site.fixed_index && (block.runs == 1 || !site.linear)) {
            start += read_integer(indices, lane, index_dtype) * site.value_stride;
            table_.load_strided[size](to + lane * bytes, memory_at(site, start, code.dtype), step,
                                      at(n));
          } else {
            table_.gather[size][type_index(index_dtype)](
                to + lane * bytes, memory_at(site, start, code.dtype), step,
                indices + lane * index_bytes, site.value_stride, at(n));
          }
        },
        [&](std::int64_t lane, std::int64_t n) { fill(code, to + lane * bytes, n); });
  }

  void store(const Code& code, Block block) {
    const BoundSite& site = launch_.sites[at(code.site)];
    if (site.once) {
      if (!block.first) return;
      block = {};
    }
    if (site.tile != 0) return store_turned(code, site, block);
    const std::int64_t step = launch_.affines[at(site.affine)].step;
    const int size = size_index(code.dtype);
    const std::byte* from = static_cast<const std::byte*>(values_[code.a]);
    if (simple(site, block)) {
      void* to = memory_at(site, index_at(site.affine, 0, 0), code.dtype);
      if (to == from) return;
      const std::size_t bytes = at(block.n) * size_of(code.dtype);
      if (site.stream && reinterpret_cast<std::uintptr_t>(to) % 64 == 0 && bytes % 64 == 0) {
        return table_.stream(to, from, bytes);
      }
      return table_.store_strided[size](to, from, step, at(block.n));
    }
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(code.dtype));
    each_run(
        site, block,
        [&](std::int64_t lane, std::int64_t n, std::int64_t start) {
          table_.store_strided[size](memory_at(site, start, code.dtype), from + lane * bytes, step,
                                     at(n));
        },
        [](std::int64_t, std::int64_t) {});
  }

  void accumulate(const Code& code, const Block& block) {
    const Reduction target = reduction(code.site);
    if (program_.mode == Mode::Lanes) {
      accumulate_lanes(target, values_[code.a], step_, block.n);
    } else {
      accumulate_row(target, values_[code.a], block.position, block.n);
    }
  }

  template <class T>
  void ramp(const Code& code, const Block& block) {
    const BoundSite& site = launch_.sites[at(code.site)];
    const std::int64_t step = launch_.affines[at(site.affine)].step;
    T* to = static_cast<T*>(values_[code.out]);
    each_run(
        site, block,
        [&](std::int64_t lane, std::int64_t n, std::int64_t value) {
          for (std::int64_t i = 0; i < n; ++i, value += step) to[lane + i] = static_cast<T>(value);
        },
        [](std::int64_t, std::int64_t) {});
  }
  HWY_NOINLINE void index(const Code& code, const Block& block) {
    if (code.dtype == DType::i32) return ramp<std::int32_t>(code, block);
    return ramp<std::int64_t>(code, block);
  }

  template <class T>
  void clamp(const Code& code, std::int64_t lanes) {
    const Instr& instr = program_.program.instrs[at(code.out)];
    const std::int64_t high = instr.high.in(launch_.ints);
    const T* from = static_cast<const T*>(values_[code.a]);
    T* to = static_cast<T*>(values_[code.out]);
    for (std::int64_t i = 0; i < lanes; ++i) {
      const std::int64_t value = static_cast<std::int64_t>(from[i]);
      const bool inside = value >= 0 && value < high;
      to[i] = inside ? from[i] : static_cast<T>(value < 0 || high == 0 ? 0 : high - 1);
      if (!inside) report(static_cast<std::int32_t>(instr.site.in(launch_.ints)), value, high);
    }
  }
  HWY_NOINLINE void bounded(const Code& code, const Block& block) {
    switch (code.dtype) {
      case DType::i32:
        return clamp<std::int32_t>(code, block.n);
      case DType::i64:
        return clamp<std::int64_t>(code, block.n);
      default:
        return clamp<std::uint8_t>(code, block.n);
    }
  }
  // The first report wins.
  void report(std::int32_t site, std::int64_t value, std::int64_t high) const {
    std::int32_t free = 0;
    if (!std::atomic_ref(memory_.error->claimed).compare_exchange_strong(free, 1)) return;
    memory_.error->site = site;
    memory_.error->index = value;
    memory_.error->high = high;
  }

  template <class T>
  void search_keys(const Code& code, const Block& block) {
    const BoundSite& site = launch_.sites[at(code.site)];
    const std::int64_t step = launch_.affines[at(site.affine)].step, stride = site.value_stride;
    const std::int64_t count = program_.program.instrs[at(code.out)].high.in(launch_.ints);
    const T* wanted = static_cast<const T*>(values_[code.a]);
    std::int32_t* to = static_cast<std::int32_t*>(values_[code.out]);
    each_run(
        site, block,
        [&](std::int64_t lane, std::int64_t n, std::int64_t start) {
          for (std::int64_t i = lane; i < lane + n; ++i, start += step) {
            const T* keys = static_cast<const T*>(memory_.slots[site.slot]) + start;
            std::int64_t low = 0, high = count;
            while (low < high) {
              const std::int64_t middle = low + (high - low) / 2;
              const bool smaller = keys[middle * stride] < wanted[i];
              low = smaller ? middle + 1 : low;
              high = smaller ? high : middle;
            }
            to[i] = static_cast<std::int32_t>(low);
          }
        },
        [](std::int64_t, std::int64_t) {});
  }
  HWY_NOINLINE void search(const Code& code, const Block& block) {
    if (program_.program.instrs[at(code.a)].dtype == DType::i32)
      return search_keys<std::int32_t>(code, block);
    return search_keys<std::int64_t>(code, block);
  }

  HWY_NOINLINE void philox(const Code& code, const Block& block) {
    const BoundSite& site = launch_.sites[at(code.site)];
    const std::int64_t step = launch_.affines[at(site.affine)].step;
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(code.dtype));
    const bool uniform = (program_.dependence[at(code.a)] | program_.dependence[at(code.b)]) == 0;
    const auto* seeds = static_cast<const std::uint64_t*>(values_[code.a]);
    const auto* offsets = static_cast<const std::uint64_t*>(values_[code.b]);
    const PhiloxFn draw = table_.philox[type_index(code.dtype)];
    std::byte* to = static_cast<std::byte*>(values_[code.out]);
    alignas(64) std::byte drawn[at(kBlock) * sizeof(double)];
    each_run(
        site, block,
        [&](std::int64_t lane, std::int64_t n, std::int64_t element) {
          if (uniform && step == 1) {
            for (std::int64_t i = 0; i < n; i += kBlock) {
              const std::int64_t count = std::min(kBlock, n - i);
              draw(drawn, *seeds, *offsets, static_cast<std::uint64_t>(element + i), at(count));
              std::memcpy(to + (lane + i) * bytes, drawn, at(count * bytes));
            }
            return;
          }
          for (std::int64_t i = lane; i < lane + n; ++i, element += step) {
            draw(drawn, seeds[i], offsets[i], static_cast<std::uint64_t>(element), 1);
            std::memcpy(to + i * bytes, drawn, at(bytes));
          }
        },
        [](std::int64_t, std::int64_t) {});
  }

  void argument(const Code& code) {
    const std::uint64_t word = memory_.args[program_.program.instrs[at(code.out)].slot];
    if (is_floating(code.dtype))
      return put_number(values_[code.out], code.dtype, std::bit_cast<double>(word));
    put_number(values_[code.out], code.dtype, std::bit_cast<std::int64_t>(word));
  }

  const Launch& launch_;
  const BlockProgram& program_;
  const SimdTable& table_;
  const LaunchMemory& memory_;
  std::byte* scratch_;
  void** values_;
  std::byte* registers_;
  std::byte* narrow_;
  std::size_t widening_;  // blocks are this many times kBlock wide
  std::int64_t* outer_at_;
  std::int64_t* vec_at_;
  std::int64_t* run_lane_ = nullptr;  // lane where each run starts, and the end
  std::int64_t* run_at_ = nullptr;    // per affine and run: position along the vector axes
  std::int64_t step_ = 0;             // Lanes: the current Red point
};

}  // namespace

void run_units(const Launch& launch, const LaunchMemory& memory, std::byte* scratch,
               std::int64_t begin, std::int64_t end) {
  Runner(launch, memory, scratch).units(begin, end);
}

void run_uniform_stores(const Launch& launch, const LaunchMemory& memory, std::byte* scratch) {
  Runner(launch, memory, scratch).uniform_stores();
}

}  // namespace volta::cpu
