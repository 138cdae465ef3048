// Binds block programs: merges axes, turns indices into strides, lays out scratch memory.
#include "backend/cpu/executor/block_launch.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/executor/reduction.h"
#include "core/heap_bytes.h"
#include "platform/parallel.h"

namespace volta::cpu {
namespace {

constexpr std::size_t at(int n) { return static_cast<std::size_t>(n); }
// Rows of at least this length get their own blocks; shorter ones share blocks.
constexpr std::int64_t kShortRow = 32;
// Row values are kept between phases if they need at most this many bytes per thread: half of a
// second-level cache.
constexpr std::size_t kKeptBytes = 512 * 1024;

// Stores larger than this bypass the caches.
constexpr std::int64_t kStreamBytes = 16 * 1024 * 1024;
// Blocks are widened while their registers fit in kWideRegisters bytes, up to kWidest times kBlock,
// for lanes up to kWidestLanes times.
constexpr std::size_t kWideRegisters = 24 * 1024;
constexpr std::int64_t kWidest = 8;
constexpr std::int64_t kWidestLanes = 16;
// The least number of steps in a lane's sum when Red points are processed together.
constexpr std::int64_t kJoinedSteps = 4;
constexpr std::size_t kPage = 4096;
// The most elements in a transposed tile in mode Lanes.
constexpr std::int64_t kTurnedLanes = 8 * 1024;

// The assumed number of Red points in a row whose length is known only at run time.
constexpr std::int64_t kBoundedWork = 4;

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

// An affine index over all axes, before merging.
struct Dense {
  std::int64_t base = 0, high = 0;
  std::vector<std::int64_t> coefficients;
};

class Binder {
 public:
  Binder(std::shared_ptr<const BlockProgram> program, const std::vector<std::int64_t>& ints)
      : program_(*program) {
    out_.program = std::move(program);
    out_.ints = ints;
  }

  Launch run() {
    for (const kernel::Axis& axis : program_.program.axes)
      extents_.push_back(axis.extent.in(out_.ints));
    for (const int n : program_.sites) add_site(program_.program.instrs[at(n)]);
    const std::vector<int> vec = merge(program_.vec_begin, program_.vec_end, out_.vec_extents);
    const std::vector<int> outer =
        merge(program_.outer_begin, program_.outer_end, out_.outer_extents);
    out_.vec_points = points(program_.vec_begin, program_.vec_end);
    out_.outer_points = points(program_.outer_begin, program_.outer_end);
    for (const Dense& dense : dense_) add_affine(dense, vec, outer);
    finish_sites(vec);
    lay_out_blocks();
    lay_out_scratch();
    return std::move(out_);
  }

 private:
  Dense dense(const kernel::Affine& affine) const {
    Dense result;
    result.base = affine.offset.in(out_.ints);
    result.coefficients.assign(extents_.size(), 0);
    for (const kernel::Term& term : affine.terms) {
      result.coefficients[at(term.axis)] = term.coefficient.in(out_.ints);
    }
    return result;
  }

  void add_site(const kernel::Instr& instr) {
    BoundSite site;
    site.affine = static_cast<int>(dense_.size());
    site.slot = instr.slot;
    site.once = instr.once;
    site.masks = static_cast<int>(instr.mask.size());
    site.value_stride = instr.value_stride.in(out_.ints);
    dense_.push_back(dense(instr.index));
    for (const kernel::Bound& bound : instr.mask) {
      dense_.push_back(dense(bound.expression));
      dense_.back().high = bound.high.in(out_.ints);
    }
    out_.sites.push_back(site);
  }

  std::int64_t points(int begin, int end) const {
    std::int64_t product = 1;
    for (int axis = begin; axis < end; ++axis) product *= extents_[at(axis)];
    return product;
  }

  // Merges a range of axes into dimensions: unit axes are dropped, and neighbours are joined if
  // every index allows it. Returns for each dimension its innermost axis, whose coefficient is the
  // dimension's.
  std::vector<int> merge(int begin, int end, std::vector<std::int64_t>& extents) const {
    std::vector<int> axes;
    for (int axis = begin; axis < end; ++axis) {
      const std::int64_t extent = extents_[at(axis)];
      if (extent == 1) continue;
      const bool joins =
          !axes.empty() && std::all_of(dense_.begin(), dense_.end(), [&](const Dense& d) {
            return d.coefficients[at(axes.back())] == d.coefficients[at(axis)] * extent;
          });
      if (joins) {
        axes.back() = axis;
        extents.back() *= extent;
      } else {
        axes.push_back(axis);
        extents.push_back(extent);
      }
    }
    return axes;
  }

  void add_affine(const Dense& dense, const std::vector<int>& vec, const std::vector<int>& outer) {
    BoundAffine affine;
    affine.base = dense.base;
    affine.high = dense.high;
    affine.outer = static_cast<std::uint32_t>(out_.coefficients.size());
    for (const int axis : outer) out_.coefficients.push_back(dense.coefficients[at(axis)]);
    affine.vec = static_cast<std::uint32_t>(out_.coefficients.size());
    for (const int axis : vec) out_.coefficients.push_back(dense.coefficients[at(axis)]);
    if (!vec.empty()) {
      affine.step = out_.coefficients.back();
      std::int64_t step = affine.step;
      for (std::size_t n = vec.size(); n-- > 1;) {
        step *= out_.vec_extents[n];
        affine.linear &= out_.coefficients[affine.vec + n - 1] == step;
      }
    }
    out_.affines.push_back(affine);
  }

  void finish_sites(const std::vector<int>& vec) {
    // The axes that advance within a run of the last vector dimension.
    std::uint64_t running = 0;
    if (!vec.empty()) {
      const int previous = vec.size() > 1 ? vec[vec.size() - 2] : program_.vec_begin - 1;
      for (int axis = previous + 1; axis <= vec.back(); ++axis) {
        if (extents_[at(axis)] != 1) running |= std::uint64_t{1} << axis;
      }
    }
    row_axes_ = running;
    for (std::size_t axis = 0; axis < extents_.size(); ++axis) {
      if (extents_[axis] == 1) row_axes_ |= std::uint64_t{1} << axis;
    }
    for (std::size_t k = 0; k < out_.sites.size(); ++k) {
      BoundSite& site = out_.sites[k];
      const kernel::Instr& instr = program_.program.instrs[at(program_.sites[k])];
      for (int n = 0; n <= site.masks; ++n) site.linear &= out_.affines[at(site.affine + n)].linear;
      if (instr.kind == kernel::InstrKind::Load && instr.a >= 0) {
        site.fixed_index = (program_.dependence[at(instr.a)] & running) == 0;
      }
      if (instr.kind == kernel::InstrKind::Store && instr.mask.empty() && !instr.once &&
          site.linear && out_.affines[at(site.affine)].step == 1 &&
          !program_.program.slots[at(instr.slot)].read) {
        const std::int64_t size =
            static_cast<std::int64_t>(size_of(program_.program.slots[at(instr.slot)].dtype));
        site.stream = out_.vec_points * size >= kStreamBytes ||
                      (program_.mode == Mode::Rows &&
                       out_.vec_points * out_.outer_points * size >= kStreamBytes);
        out_.streams |= site.stream;
      }
      // Reading past the end of a block is harmless within the memory that the launch reads anyway,
      // unless the launch writes there.
      if (instr.kind == kernel::InstrKind::Load && instr.a < 0 && instr.mask.empty() &&
          !program_.program.slots[at(instr.slot)].written) {
        const Dense& index = dense_[at(site.affine)];
        site.end = index.base + 1;
        for (std::size_t axis = 0; axis < extents_.size(); ++axis) {
          site.end += std::max<std::int64_t>(0, index.coefficients[axis] * (extents_[axis] - 1));
        }
      }
    }
  }

  void lay_out_blocks() {
    if (out_.vec_extents.empty()) out_.vec_extents.push_back(1);
    const std::int64_t last = out_.vec_extents.back();
    if (out_.vec_points > 0) join_rows(last);
    out_.flat = out_.vec_extents.size() > 1 && last < kShortRow && out_.together == 1;
    if (out_.vec_points == 0) {
      out_.blocks = 0;
    } else if (out_.together > 1) {
      const std::int64_t rows = out_.vec_points / last;
      out_.widest = out_.together * last;
      out_.blocks = program_.mode == Mode::Map ? (rows + out_.together - 1) / out_.together : rows;
    } else if (out_.flat) {
      out_.blocks = (out_.vec_points + kBlock - 1) / kBlock;
      out_.widest = std::min(out_.vec_points, kBlock);
    } else {
      // A strided index touches one cache line per element, so rows that share those lines are
      // visited together.
      out_.turned = program_.mode == Mode::Map && out_.vec_extents.size() > 1 && last > kBlock &&
                    std::any_of(out_.sites.begin(), out_.sites.end(), [&](const BoundSite& site) {
                      const std::int64_t step = out_.affines[at(site.affine)].step;
                      return site.slot >= 0 && (step > 1 || step < -1);
                    });
      if (!out_.turned) widen_blocks(out_.vec_points / last, last);
      out_.row_blocks = (last + out_.block - 1) / out_.block;
      out_.blocks = out_.vec_points / last * out_.row_blocks;
      out_.widest = std::min(last, out_.block);
    }
    const bool rows = program_.mode == Mode::Rows;
    out_.units = rows ? out_.outer_points : out_.blocks;
    const bool points = program_.mode == Mode::Lanes && out_.together > 1;
    const std::int64_t width = points ? last : out_.widest;
    out_.unit_work = std::max<std::int64_t>(1, rows ? out_.vec_points : width * out_.outer_points);
    // The length of the rows is known only at run time; the product of the sizes may even overflow.
    if (program_.bound >= 0) out_.unit_work = out_.widest * kBoundedWork;
  }

  // Lets several rows share a block if they are too short for their own and consecutive in memory.
  void join_rows(std::int64_t last) {
    std::int64_t most = 0;  // the number of rows that could be joined
    if (program_.mode == Mode::Map && out_.vec_extents.size() > 1 && split_by_row()) {
      most = out_.vec_points / last;
    } else if (program_.mode == Mode::Lanes && points_adjoin(last)) {
      most = out_.outer_points / kJoinedSteps;
    }
    std::size_t registers = program_.register_bytes;
    for (const RepeatedValue& repeated : out_.repeated)
      registers += at(kBlock) * size_of(program_.program.instrs[at(repeated.value)].dtype);
    std::int64_t width = kBlock * kWidest;
    while (width > kBlock && registers * at(width / kBlock) > kWideRegisters) width /= 2;
    const std::int64_t together = std::min(width / last, most);
    if (together < 2) return out_.repeated.clear();
    out_.together = std::bit_floor(static_cast<std::uint64_t>(together));
    out_.block = width;
  }

  // Lanes: whether the elements of consecutive Red points are adjacent in memory at every site.
  bool points_adjoin(std::int64_t last) const {
    if (!program_.pointwise || out_.outer_extents.size() != 1) return false;
    for (std::size_t k = 0; k < out_.sites.size(); ++k) {
      const BoundSite& site = out_.sites[k];
      if (program_.dependence[at(program_.sites[k])] >> program_.outer_begin == 0) continue;
      const BoundAffine& index = out_.affines[at(site.affine)];
      if (site.masks > 0 || index.step != 1 || out_.coefficients[index.outer] != last) return false;
    }
    return true;
  }

  // Map: whether every value either varies along the row only or treats all rows as one long row.
  // Fills of_row, of_block and repeated if so.
  bool split_by_row() {
    std::vector<Code> of_row, of_block;
    std::vector<bool> along_row(program_.program.instrs.size(), false);
    for (const Code& code : program_.phases[0].par) {
      const bool store = code.kind == CodeKind::Store;
      if (!store && (program_.dependence[at(code.out)] & ~row_axes_) == 0) {
        along_row[at(code.out)] = true;
        of_row.push_back(code);
        of_row.back().direct = -1;
        continue;
      }
      const bool picks = code.kind == CodeKind::Gather || code.kind == CodeKind::Search;
      if (picks || (code.site >= 0 && !out_.sites[at(code.site)].linear)) return false;
      of_block.push_back(code);
    }
    std::vector<bool> read(along_row.size(), false);
    const auto reads = [&](int value) {
      if (value >= 0) read[at(value)] = true;
    };
    for (const Code& code : of_block) {
      for (std::uint32_t n = 0; n < code.step_count; ++n) {
        const ChainStep& step = program_.steps[code.first_step + n];
        for (const int operand : {step.a, step.b, step.c}) reads(operand);
      }
      if (code.step_count > 0) continue;
      for (const int operand : {code.a, code.b, code.c}) reads(operand);
    }
    for (std::size_t n = 0; n < read.size(); ++n) {
      if (read[n] && along_row[n]) out_.repeated.push_back({static_cast<int>(n), 0});
    }
    out_.of_row = std::move(of_row);
    out_.of_block = std::move(of_block);
    return true;
  }

  // Wide blocks amortize the start of a kernel and suit memory better. Only in mode Lanes, whose
  // lanes are independent, may the width depend on the number of threads.
  void widen_blocks(std::int64_t rows, std::int64_t last) {
    const bool lanes = program_.mode == Mode::Lanes;
    const bool turned = lanes && any_turns();
    std::int64_t factor = lanes ? kWidestLanes : kWidest;
    const auto fits = [&] {
      const std::int64_t width = kBlock * factor;
      return program_.register_bytes * at(factor) <= kWideRegisters && last > width / 2 &&
             (!lanes || rows * ((last + width - 1) / width) >= platform::num_threads()) &&
             (!turned || width * out_.outer_points <= kTurnedLanes);
    };
    while (factor > 1 && !fits()) factor /= 2;
    out_.block = kBlock * factor;
  }

  // Whether a site is transposed in a tile. In turned launches: a load that is contiguous across
  // rows, so a band of rows is read together by cache lines. In mode Lanes: a load or store that is
  // contiguous along the reduced axis, which is transposed as a whole.
  bool turns(const BoundSite& site, const kernel::Instr& instr) const {
    const BoundAffine& index = out_.affines[at(site.affine)];
    const bool load = instr.kind == kernel::InstrKind::Load && instr.a < 0;
    const bool strided = site.masks == 0 && (index.step > 1 || index.step < -1);
    if (out_.turned)
      return load && strided && out_.coefficients[index.vec + out_.vec_extents.size() - 2] == 1;
    const bool store = instr.kind == kernel::InstrKind::Store && !instr.once;
    return turns_lanes() && (load || store) && strided && out_.coefficients[index.outer] == 1;
  }
  bool turns_lanes() const {
    return program_.mode == Mode::Lanes && !out_.flat && out_.outer_extents.size() == 1 &&
           out_.outer_points <= kBand && program_.bound < 0 && !program_.scans_back;
  }
  bool any_turns() const {
    for (std::size_t k = 0; k < out_.sites.size(); ++k) {
      if (turns(out_.sites[k], program_.program.instrs[at(program_.sites[k])])) return true;
    }
    return false;
  }

  void lay_out_scratch() {
    // Scratch holds the registers, pointers to values, offsets of affine indices (outer, vector,
    // per run), accumulators and rows.
    std::size_t bytes = aligned(program_.registers.size() * sizeof(void*));
    bytes += aligned(program_.register_bytes * at(out_.block / kBlock));
    bytes += aligned(program_.narrow_bytes);
    bytes += 2 * aligned(out_.affines.size() * sizeof(std::int64_t));
    if (out_.flat)
      bytes += aligned((out_.affines.size() + 1) * at(kBlock + 1) * sizeof(std::int64_t));
    out_.accumulators = bytes;
    if (program_.mode == Mode::Rows) {
      out_.accumulator_bytes = kRowReductionBytes;
    } else if (program_.mode == Mode::Lanes) {
      out_.sum_levels =
          out_.outer_points <= 2 * kLaneRun
              ? 0
              : std::bit_width(static_cast<std::uint64_t>(out_.outer_points / kLaneRun));
      out_.accumulator_bytes = at(out_.block) * sizeof(double) * at(out_.sum_levels + 1);
    }
    bytes += program_.reduces.size() * out_.accumulator_bytes;
    out_.scan_sums = bytes;
    out_.scan_bytes = aligned(at(out_.block) * sizeof(double));
    bytes += program_.scans.size() * out_.scan_bytes;
    // Processors treat a load as dependent on a pending store at the same offset in another page.
    // Rows of tensors tend to start on page boundaries, so row memory that is accessed along with
    // them starts on one too.
    if (!program_.kept.empty()) bytes = (bytes + kPage - 1) / kPage * kPage;
    // The padding avoids a power of two, which would map all rows of a tile to a few cache sets.
    out_.tile_stride = out_.block + kPad;
    std::size_t kept = 0;
    // The elements kept for a value: the whole row, or a block for each outer point.
    const std::int64_t elements =
        program_.mode == Mode::Rows
            ? out_.vec_points
            : (out_.outer_points + out_.together - 1) / out_.together * out_.tile_stride;
    for (RepeatedValue& repeated : out_.repeated) {
      repeated.at = bytes;
      bytes += aligned(at(out_.block + kPad) *
                       size_of(program_.program.instrs[at(repeated.value)].dtype));
    }
    for (const int value : program_.kept) {
      out_.row_at.push_back(bytes + kept);
      kept += aligned((static_cast<std::size_t>(elements) + at(kPad)) *
                      size_of(program_.program.instrs[at(value)].dtype));
    }
    out_.keep = kept <= kKeptBytes;
    if (out_.keep) bytes += kept;
    for (std::size_t k = 0; k < out_.sites.size(); ++k) {
      const kernel::Instr& instr = program_.program.instrs[at(program_.sites[k])];
      if (!turns(out_.sites[k], instr)) continue;
      out_.sites[k].tile = bytes;
      const std::int64_t rows = out_.turned ? kBand : out_.outer_points;
      bytes += kTileHeader +
               at(rows * out_.tile_stride) * size_of(program_.program.slots[at(instr.slot)].dtype);
    }
    out_.scratch_bytes = bytes + 1024;  // kernels may write whole vectors past the last register
  }

  const BlockProgram& program_;
  Launch out_;
  std::vector<std::int64_t> extents_;
  std::uint64_t row_axes_ = 0;  // the axes of the last dimension, and those of extent 1
  std::vector<Dense> dense_;
};

}  // namespace

Launch bind(std::shared_ptr<const BlockProgram> program, const std::vector<std::int64_t>& ints) {
  return Binder(std::move(program), ints).run();
}

std::uint64_t host_bytes(const Launch& launch) {
  return sizeof(Launch) + heap_bytes(launch.ints) + heap_bytes(launch.vec_extents) +
         heap_bytes(launch.outer_extents) + heap_bytes(launch.affines) + heap_bytes(launch.sites) +
         heap_bytes(launch.coefficients) + heap_bytes(launch.row_at) + heap_bytes(launch.of_row) +
         heap_bytes(launch.of_block) + heap_bytes(launch.repeated);
}

}  // namespace volta::cpu
