// Executes a bound launch: for each unit, its sections run block by block over registers in scratch
// memory.
#include <algorithm>
#include <cstring>

#include "backend/cpu/executor/block_instructions.h"
#include "backend/cpu/executor/reduction.h"
#include "hwy/base.h"
#include "hwy/cache_control.h"

namespace volta::cpu {
namespace {

class Runner : private BlockState {
 public:
  using BlockState::BlockState;

  void units(std::int64_t begin, std::int64_t end) {
    run_uniform(launch.widest);
    switch (program.mode) {
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
    if (launch.streams) hwy::FlushStream();
  }

  void uniform_stores() {
    run_uniform(1);
    for (const Code& code : program.uniform_stores) store(code, {.first = true});
  }

 private:
  void run_uniform(std::int64_t lanes) {
    for (const Code& code : program.uniform) {
      execute(code, {});
      if (lanes > 1 && code.spread) splat(code.out, lanes);
    }
  }

  void run_map(std::int64_t begin, std::int64_t end) {
    if (launch.together > 1) run_of_row();
    const std::vector<Code>& body = launch.together > 1 ? launch.of_block : program.phases[0].par;
    for (std::int64_t b = begin; b < end; ++b) {
      Block block = cursor.set_block(b);
      block.first = b == 0;
      run_section(body, block);
    }
  }

  // Computes the values that are equal in all rows once, and repeats them for every row of a block.
  void run_of_row() {
    Block row = cursor.set_block(0);
    row.n = launch.vec_extents.back();
    auto next = launch.repeated.begin();
    for (const Code& code : launch.of_row) {
      run_code(code, row);
      if (next == launch.repeated.end() || next->value != code.out) continue;
      // Copied now, because a later instruction may reuse the register.
      const std::size_t bytes = at(row.n) * size_of(program.program.instrs[at(code.out)].dtype);
      std::byte* to = scratch + next->at;
      std::memcpy(to, values[code.out], bytes);
      repeat(to, bytes);
      values[code.out] = to;
      ++next;
    }
  }

  void repeat(const std::vector<int>& of_lanes, std::int64_t lanes) const {
    for (const int value : of_lanes) {
      repeat(static_cast<std::byte*>(values[value]),
             at(lanes) * size_of(program.program.instrs[at(value)].dtype));
    }
  }
  // Copies the first row of a block to the other rows that share it.
  void repeat(std::byte* row, std::size_t bytes) const {
    for (std::int64_t done = 1; done < launch.together; done *= 2)
      std::memcpy(row + at(done) * bytes, row, at(done) * bytes);
  }

  void run_lanes(std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      Block block = cursor.set_block(b);
      block.band = b;
      for (const Phase& phase : program.phases) {
        block.first = b == 0;
        block.band_rows = 0;
        run_section(phase.par, block);
        if (launch.together > 1) repeat(phase.spread, block.n);
        const std::vector<Code>& body = launch.keep ? phase.kept : phase.again;
        if (body.empty()) continue;
        block.band_rows = launch.outer_points;
        if (program.bound < 0 && (run_product(*this, phase, block) || run_fold(phase, block)))
          continue;
        if (launch.together > 1) {
          run_together(phase, body, block);
          continue;
        }
        for (const int k : phase.reduces) begin_lanes(reduction(k), block.n);
        const std::int64_t points = points_of(block);
        if (points > 0) run_section(phase.inner, block);
        for (std::size_t k = 0; k < program.scans.size(); ++k) begin_scan(*this, k, block.n);
        for (std::int64_t i = 0; i < points; ++i) {
          const std::int64_t r = program.scans_back ? points - 1 - i : i;
          cursor.set_outer(r);
          step_ = i;
          block.band_row = r;
          block.first = b == 0 && r == 0;
          place_kept(r * launch.tile_stride);
          run_section(body, block);
        }
        for (const int k : phase.reduces) finish_lanes(reduction(k), points, block.n);
      }
    }
  }

  // Processes several Red points at a time, each with its own accumulators.
  void run_together(const Phase& phase, const std::vector<Code>& body, Block block) {
    const std::int64_t lanes = block.n, points = launch.outer_points;
    const bool first = block.first;
    for (const int k : phase.reduces) begin_lanes(reduction(k), lanes * launch.together);
    step_ = 0;
    for (std::int64_t r = 0; r < points; r += launch.together, ++step_) {
      cursor.set_outer(r);
      block.n = lanes * std::min(launch.together, points - r);
      block.first = first && r == 0;
      partial_ = r + launch.together > points;
      place_kept(step_ * launch.tile_stride);
      run_section(body, block);
    }
    partial_ = false;
    for (const int k : phase.reduces) {
      finish_lanes(reduction(k), points / launch.together, lanes * launch.together);
      join_groups(reduction(k), launch.together, lanes);
    }
  }

  // The number of Red points that the longest lane of the block needs.
  std::int64_t points_of(const Block& block) const {
    if (program.bound < 0) return launch.outer_points;
    const DType dtype = program.program.instrs[at(program.bound)].dtype;
    std::int64_t longest = 0;
    for (std::int64_t lane = 0; lane < block.n; ++lane)
      longest = std::max(longest, read_integer(values[program.bound], lane, dtype));
    return std::min(longest, launch.outer_points);
  }

  // Reduces rows directly from memory, several at a time.
  bool run_fold(const Phase& phase, const Block& block) {
    if (phase.folded < 0 || launch.outer_extents.size() != 1) return false;
    const BoundSite& site = launch.sites[at(phase.folded)];
    const ReduceSite& reduce = program.reduces[at(phase.reduces[0])];
    const BoundAffine& index = launch.affines[at(site.affine)];
    const bool turned = site.tile != 0;
    if (site.masks > 0 || (index.step != 1 && !turned) || !cursor.simple(site, block) ||
        !folds_rows(reduce.op, reduce.dtype))
      return false;
    const std::int64_t stride = turned ? launch.tile_stride : launch.coefficients[index.outer];
    const std::int64_t rows = launch.outer_points;
    cursor.set_outer(0);
    const void* from = memory_at(site, cursor.index_at(site.affine, 0, 0), reduce.dtype);
    if (turned) from = turn_tile(site, block, reduce.dtype, from);
    const Reduction target = reduction(phase.reduces[0]);
    begin_lanes(target, block.n);
    accumulate_lane_rows(target, from, stride, rows, block.n);
    finish_lanes(target, rows, block.n);
    return true;
  }

  void run_rows(std::int64_t begin, std::int64_t end) {
    for (std::int64_t point = begin; point < end; ++point) {
      cursor.set_outer(point);
      for (const Phase& phase : program.phases) {
        run_section(phase.par, {.first = point == 0});
        for (const int value : phase.spread) splat(value, launch.widest);
        const std::vector<Code>& body = launch.keep ? phase.kept : phase.again;
        if (body.empty()) continue;
        for (const int k : phase.reduces) begin_row(reduction(k));
        for (std::size_t k = 0; k < program.scans.size(); ++k) begin_scan(*this, k, 1);
        for (std::int64_t i = 0; i < launch.blocks; ++i) {
          const std::int64_t b = program.scans_back ? launch.blocks - 1 - i : i;
          Block block = cursor.set_block(b);
          block.first = point == 0 && b == 0;
          place_kept(block.position);
          run_section(body, block);
        }
        for (const int k : phase.reduces) finish_row(reduction(k));
      }
    }
  }

  Reduction reduction(int k) const {
    const ReduceSite& site = program.reduces[at(k)];
    return {site.op,
            site.dtype,
            launch.sum_levels,
            at(launch.block) * sizeof(double),
            values[at(site.instr)],
            scratch + launch.accumulators + at(k) * launch.accumulator_bytes,
            std::max<std::int64_t>(1, kRowRun / launch.block)};
  }

  // Sets the addresses of the kept values for the block at `position` of their rows.
  void place_kept(std::int64_t position) {
    if (!launch.keep) return;
    for (std::size_t k = 0; k < program.kept.size(); ++k) {
      const int value = program.kept[k];
      values[value] = scratch + launch.row_at[k] +
                      at(position) * size_of(program.program.instrs[at(value)].dtype);
    }
  }

  void splat(int value, std::int64_t lanes) {
    const DType dtype = program.program.instrs[at(value)].dtype;
    table.splat[size_index(dtype)](values[value], values[value], nullptr, nullptr, at(lanes));
  }

  void run_section(const std::vector<Code>& section, const Block& block) {
    for (const Code& code : section) run_code(code, block);
  }

  void run_code(const Code& code, const Block& block) {
    if (code.kind == CodeKind::Compute) {
      if (code.direct >= 0) place_direct(code, block);
      code.fn(values[code.out], values[code.a], values[code.b], values[code.c], at(block.n));
    } else if (code.kind == CodeKind::Chain) {
      run_chain(code, block);
    } else {
      execute(code, block);
    }
  }

  void execute(const Code& code, const Block& block) {
    switch (code.kind) {
      case CodeKind::Compute:
        return code.fn(values[code.out], values[code.a], values[code.b], values[code.c],
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
        return run_gather(*this, code, block);
      case CodeKind::Index:
        return run_index(*this, code, block);
      case CodeKind::Bounded:
        return run_bounded(*this, code, block);
      case CodeKind::Search:
        return run_search(*this, code, block);
      case CodeKind::Scan:
        return run_scan(*this, code, block);
      case CodeKind::Philox:
        return run_philox(*this, code, block);
      case CodeKind::Const:
        return put_constant(values[code.out], code.dtype,
                            program.program.instrs[at(code.out)].constant);
      case CodeKind::Arg:
        return run_argument(*this, code);
    }
  }

  void run_chain(const Code& code, const Block& block) {
    ChainRun run{.steps = &program.steps[code.first_step],
                 .count = code.step_count,
                 .values = values,
                 .end = at(block.n),
                 .out = values[code.out]};
    if (code.folds >= 0) return fold_chain(code, block, run);
    if (code.direct < 0) return code.chain(run);
    const BoundSite& site = launch.sites[at(code.direct)];
    void* place = direct_memory(code, site, block);
    const std::size_t whole = at(block.n / kPad * kPad), n = at(block.n);
    if (place == nullptr || whole == 0 || (whole < n && !code.only)) {
      run.out = values[code.out] = home(code.out);
      return code.chain(run);
    }
    run.out = values[code.out] = place;
    run.end = whole;
    run.stream = site.stream && reinterpret_cast<std::uintptr_t>(place) % 64 == 0;
    code.chain(run);
    if (whole == n) return;
    // The remainder does not fill whole vectors and goes through the register.
    run.begin = whole;
    run.end = n;
    run.out = home(code.out);
    run.stream = false;
    code.chain(run);
    const std::size_t size = size_of(code.dtype);
    std::memcpy(static_cast<std::byte*>(place) + whole * size, home(code.out) + whole * size,
                (n - whole) * size);
  }

  // Whole groups of vectors are folded directly; the remainder of the row is folded from its
  // register.
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

  // The memory into which a block of results may be computed; null if it is not contiguous.
  void* direct_memory(const Code& code, const BoundSite& site, const Block& block) const {
    if (site.tile != 0) return tile_row(site, block, code.dtype);
    if (launch.affines[at(site.affine)].step != 1 || !cursor.simple(site, block)) return nullptr;
    return memory_at(site, cursor.index_at(site.affine, 0, 0), code.dtype);
  }

  // The result goes to its register, or directly to the memory of its Store if it consists of whole
  // vectors.
  void place_direct(const Code& code, const Block& block) {
    const BoundSite& site = launch.sites[at(code.direct)];
    const bool whole = block.n % kPad == 0 && !site.stream;
    void* place = whole ? direct_memory(code, site, block) : nullptr;
    values[code.out] = place != nullptr ? place : home(code.out);
  }

  void load(const Code& code, const Block& block) {
    const BoundSite& site = launch.sites[at(code.site)];
    const std::int64_t step = launch.affines[at(site.affine)].step;
    const int size = size_index(code.dtype);
    std::byte* to = home(code.out);
    if (cursor.simple(site, block) || cursor.unmasked(site, block)) {
      const std::int64_t start = cursor.index_at(site.affine, 0, 0);
      void* from = memory_at(site, start, code.dtype);
      if (step == 1 && code.may_alias &&
          (block.n % kPad == 0 || start + padded(block.n) <= site.end)) {
        values[code.out] = from;
        return;
      }
      if (site.tile != 0 && block.band_rows > 0) return load_turned(code, site, block, from);
      values[code.out] = to;
      if (step == 0) return table.splat[size](to, from, nullptr, nullptr, at(block.n));
      return table.load_strided[size](to, from, step, at(block.n));
    }
    values[code.out] = to;
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(code.dtype));
    cursor.each_run(
        site, block,
        [&](std::int64_t lane, std::int64_t n, std::int64_t start) {
          table.load_strided[size](to + lane * bytes, memory_at(site, start, code.dtype), step,
                                   at(n));
        },
        [&](std::int64_t lane, std::int64_t n) { fill_lanes(*this, code, to + lane * bytes, n); });
  }

  std::byte* tile_row(const BoundSite& site, const Block& block, DType dtype) const {
    return scratch + site.tile + kTileHeader +
           at(block.band_row * launch.tile_stride) * size_of(dtype);
  }

  // The transposed tile of a band, read as a whole by the first block that needs it. `from` is its
  // first row.
  const std::byte* turn_tile(const BoundSite& site, const Block& block, DType dtype,
                             const void* from) {
    std::int64_t* holds = reinterpret_cast<std::int64_t*>(scratch + site.tile);
    std::byte* tile = scratch + site.tile + kTileHeader;
    if (*holds != block.band) {
      *holds = block.band;
      table.turn[size_index(dtype)](tile, launch.tile_stride, from,
                                    launch.affines[at(site.affine)].step, block.n, block.band_rows,
                                    true);
    }
    return tile;
  }
  void load_turned(const Code& code, const BoundSite& site, const Block& block, const void* from) {
    turn_tile(site, block, code.dtype,
              static_cast<const std::byte*>(from) - at(block.band_row) * size_of(code.dtype));
    values[code.out] = tile_row(site, block, code.dtype);
  }

  // Lanes: results are collected in a tile, which is transposed into memory after the last row.
  void store_turned(const Code& code, const BoundSite& site, const Block& block) {
    std::byte* row = tile_row(site, block, code.dtype);
    if (values[code.a] != row) std::memcpy(row, values[code.a], at(block.n) * size_of(code.dtype));
    if (block.band_row + 1 < block.band_rows) return;
    table.turn[size_index(code.dtype)](
        memory_at(site, cursor.index_at(site.affine, 0, 0) - block.band_row, code.dtype),
        launch.affines[at(site.affine)].step, scratch + site.tile + kTileHeader, launch.tile_stride,
        block.band_rows, block.n, false);
  }

  void store(const Code& code, Block block) {
    const BoundSite& site = launch.sites[at(code.site)];
    if (site.once) {
      if (!block.first) return;
      block = {};
    }
    if (site.tile != 0) return store_turned(code, site, block);
    const std::int64_t step = launch.affines[at(site.affine)].step;
    const int size = size_index(code.dtype);
    const std::byte* from = static_cast<const std::byte*>(values[code.a]);
    if (cursor.simple(site, block)) {
      void* to = memory_at(site, cursor.index_at(site.affine, 0, 0), code.dtype);
      if (to == from) return;
      const std::size_t bytes = at(block.n) * size_of(code.dtype);
      if (site.stream && reinterpret_cast<std::uintptr_t>(to) % 64 == 0 && bytes % 64 == 0) {
        return table.stream(to, from, bytes);
      }
      return table.store_strided[size](to, from, step, at(block.n));
    }
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(code.dtype));
    cursor.each_run(
        site, block,
        [&](std::int64_t lane, std::int64_t n, std::int64_t start) {
          table.store_strided[size](memory_at(site, start, code.dtype), from + lane * bytes, step,
                                    at(n));
        },
        [](std::int64_t, std::int64_t) {});
  }

  void accumulate(const Code& code, const Block& block) {
    const Reduction target = reduction(code.site);
    if (partial_) {
      accumulate_first_lanes(target, values[code.a], block.n);
    } else if (program.mode == Mode::Lanes) {
      accumulate_lanes(target, values[code.a], step_, block.n);
    } else {
      const bool streamed = values[code.a] != home(code.a);
      accumulate_row(target, values[code.a], block.position, block.n, streamed);
    }
  }

  std::int64_t step_ = 0;  // Lanes: the number of the current Red point, or group of points
  bool partial_ = false;   // the current group has fewer points than the others
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
