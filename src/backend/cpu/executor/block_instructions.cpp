// The registers of a launch, and the instructions that process single lanes or access memory
// directly.
#include "backend/cpu/executor/block_instructions.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

namespace volta::cpu {

using kernel::Instr;

namespace {

// Writes one converted number to lane 0; like every kernel, this may write a whole vector.
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

template <class T>
void ramp(const BlockState& state, const Code& code, const Block& block) {
  const BoundSite& site = state.launch.sites[at(code.site)];
  const std::int64_t step = state.launch.affines[at(site.affine)].step;
  T* to = static_cast<T*>(state.values[code.out]);
  state.cursor.each_run(
      site, block,
      [&](std::int64_t lane, std::int64_t n, std::int64_t value) {
        for (std::int64_t i = 0; i < n; ++i, value += step) to[lane + i] = static_cast<T>(value);
      },
      [](std::int64_t, std::int64_t) {});
}

// Records an index out of range; the first report wins.
void report(const BlockState& state, std::int32_t site, std::int64_t value, std::int64_t high) {
  std::int32_t free = 0;
  if (!std::atomic_ref(state.memory.error->claimed).compare_exchange_strong(free, 1)) return;
  state.memory.error->site = site;
  state.memory.error->index = value;
  state.memory.error->high = high;
}

template <class T>
void clamp(const BlockState& state, const Code& code, std::int64_t lanes) {
  const Instr& instr = state.program.program.instrs[at(code.out)];
  const std::int64_t high = instr.high.in(state.launch.ints);
  const T* from = static_cast<const T*>(state.values[code.a]);
  T* to = static_cast<T*>(state.values[code.out]);
  // Nearly always all indices are in range. If one is not, the sign bit of either the index or high
  // - 1 - index is set. This loop vectorizes on every machine.
  std::uint64_t signs = 0;
  for (std::int64_t i = 0; i < lanes; ++i) {
    const std::uint64_t value = static_cast<std::uint64_t>(static_cast<std::int64_t>(from[i]));
    signs |= value | (static_cast<std::uint64_t>(high) - 1 - value);
    to[i] = from[i];
  }
  if (signs >> 63 == 0) return;
  for (std::int64_t i = 0; i < lanes; ++i) {
    const std::int64_t value = static_cast<std::int64_t>(from[i]);
    const bool inside = value >= 0 && value < high;
    to[i] = inside ? from[i] : static_cast<T>(value < 0 || high == 0 ? 0 : high - 1);
    if (!inside)
      report(state, static_cast<std::int32_t>(instr.site.in(state.launch.ints)), value, high);
  }
}

template <class T>
void search_keys(const BlockState& state, const Code& code, const Block& block) {
  const BoundSite& site = state.launch.sites[at(code.site)];
  const std::int64_t step = state.launch.affines[at(site.affine)].step, stride = site.value_stride;
  const std::int64_t count = state.program.program.instrs[at(code.out)].high.in(state.launch.ints);
  const T* wanted = static_cast<const T*>(state.values[code.a]);
  std::int32_t* to = static_cast<std::int32_t*>(state.values[code.out]);
  state.cursor.each_run(
      site, block,
      [&](std::int64_t lane, std::int64_t n, std::int64_t start) {
        for (std::int64_t i = lane; i < lane + n; ++i, start += step) {
          const T* keys = static_cast<const T*>(state.memory.slots[site.slot]) + start;
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

// The running sum of a Scan: one per lane, or for Rows one for the row.
std::byte* scan_sum(const BlockState& state, std::size_t k) {
  return state.scratch + state.launch.scan_sums + k * state.launch.scan_bytes;
}

// Groups of lanes are summed separately: their additions overlap, and each element passes through
// fewer of them.
template <class T>
void scan_block(const BlockState& state, const Code& code, const Block& block) {
  constexpr std::int64_t kGroup = 16;
  T before = *reinterpret_cast<const T*>(scan_sum(state, at(code.site)));
  const std::int64_t first = state.program.scans_back ? block.n - 1 : 0;
  const std::int64_t step = state.program.scans_back ? -1 : 1;
  const T* from = static_cast<const T*>(state.values[code.a]) + first;
  T* to = static_cast<T*>(state.values[code.out]) + first;
  for (std::int64_t begin = 0; begin < block.n; begin += kGroup) {
    const std::int64_t end = std::min(begin + kGroup, block.n);
    T sum = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      sum = static_cast<T>(sum + from[i * step]);
      to[i * step] = static_cast<T>(before + sum);
    }
    before = static_cast<T>(before + sum);
  }
  *reinterpret_cast<T*>(scan_sum(state, at(code.site))) = before;
}

}  // namespace

// Hands out parts of a thread's scratch memory.
class BlockState::Pieces {
 public:
  explicit Pieces(std::byte* scratch) : next_(scratch) {}
  template <class T>
  T* take(std::size_t count) {
    std::byte* taken = next_;
    next_ += (count * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(taken);
  }

 private:
  std::byte* next_;
};

BlockState::BlockState(const Launch& bound, const LaunchMemory& of_run, std::byte* of_thread)
    : BlockState(bound, of_run, of_thread, Pieces(of_thread)) {
  for (std::size_t n = 0; n < program.registers.size(); ++n) values[n] = home(static_cast<int>(n));
  for (const BoundSite& site : launch.sites) {
    if (site.tile != 0) *reinterpret_cast<std::int64_t*>(scratch + site.tile) = -1;
  }
}

// Registers come first, because scratch memory starts on a page boundary.
BlockState::BlockState(const Launch& bound, const LaunchMemory& of_run, std::byte* of_thread,
                       Pieces pieces)
    : launch(bound),
      program(*bound.program),
      table(simd()),
      memory(of_run),
      scratch(of_thread),
      widening(at(bound.block / kBlock)),
      registers(pieces.take<std::byte>(program.register_bytes * widening)),
      narrow(pieces.take<std::byte>(program.narrow_bytes)),
      values(pieces.take<void*>(program.registers.size())),
      cursor(bound, pieces.take<std::int64_t>(BlockCursor::numbers(bound))) {}

void put_constant(void* out, DType dtype, double value) {
  if (is_floating(dtype)) return put_number(out, dtype, value);
  put_number(out, dtype, static_cast<std::int64_t>(value));
}

void run_argument(const BlockState& state, const Code& code) {
  const std::uint64_t word = state.memory.args[state.program.program.instrs[at(code.out)].slot];
  if (is_floating(code.dtype))
    return put_number(state.values[code.out], code.dtype, std::bit_cast<double>(word));
  put_number(state.values[code.out], code.dtype, std::bit_cast<std::int64_t>(word));
}

void run_index(const BlockState& state, const Code& code, const Block& block) {
  if (code.dtype == DType::i32) return ramp<std::int32_t>(state, code, block);
  return ramp<std::int64_t>(state, code, block);
}

void run_bounded(const BlockState& state, const Code& code, const Block& block) {
  switch (code.dtype) {
    case DType::i32:
      return clamp<std::int32_t>(state, code, block.n);
    case DType::i64:
      return clamp<std::int64_t>(state, code, block.n);
    default:
      return clamp<std::uint8_t>(state, code, block.n);
  }
}

void run_search(const BlockState& state, const Code& code, const Block& block) {
  if (state.program.program.instrs[at(code.a)].dtype == DType::i32)
    return search_keys<std::int32_t>(state, code, block);
  return search_keys<std::int64_t>(state, code, block);
}

void run_philox(const BlockState& state, const Code& code, const Block& block) {
  const BoundSite& site = state.launch.sites[at(code.site)];
  const std::int64_t step = state.launch.affines[at(site.affine)].step;
  const std::int64_t bytes = static_cast<std::int64_t>(size_of(code.dtype));
  const bool uniform =
      (state.program.dependence[at(code.a)] | state.program.dependence[at(code.b)]) == 0;
  const auto* seeds = static_cast<const std::uint64_t*>(state.values[code.a]);
  const auto* offsets = static_cast<const std::uint64_t*>(state.values[code.b]);
  const PhiloxFn draw = state.table.philox[type_index(code.dtype)];
  std::byte* to = static_cast<std::byte*>(state.values[code.out]);
  alignas(64) std::byte drawn[at(kBlock) * sizeof(double)];
  state.cursor.each_run(
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

void run_gather(const BlockState& state, const Code& code, const Block& block) {
  const BoundSite& site = state.launch.sites[at(code.site)];
  const std::int64_t step = state.launch.affines[at(site.affine)].step;
  const DType index_dtype = state.program.program.instrs[at(code.a)].dtype;
  const int size = size_index(code.dtype);
  const std::int64_t bytes = static_cast<std::int64_t>(size_of(code.dtype));
  const std::int64_t index_bytes = static_cast<std::int64_t>(size_of(index_dtype));
  std::byte* to = static_cast<std::byte*>(state.values[code.out]);
  const std::byte* indices = static_cast<const std::byte*>(state.values[code.a]);
  state.cursor.each_run(
      site, block,
      [&](std::int64_t lane, std::int64_t n, std::int64_t start) {
        // If the run has a single index, this copies a row. Sites with a linear index do not see
        // where runs end.
        if (site.fixed_index && (block.runs == 1 || !site.linear)) {
          start += read_integer(indices, lane, index_dtype) * site.value_stride;
          state.table.load_strided[size](to + lane * bytes,
                                         state.memory_at(site, start, code.dtype), step, at(n));
        } else {
          state.table.gather[size][type_index(index_dtype)](
              to + lane * bytes, state.memory_at(site, start, code.dtype), step,
              indices + lane * index_bytes, site.value_stride, at(n));
        }
      },
      [&](std::int64_t lane, std::int64_t n) { fill_lanes(state, code, to + lane * bytes, n); });
}

void fill_lanes(const BlockState& state, const Code& code, std::byte* to, std::int64_t n) {
  alignas(64) std::byte value[64];
  put_constant(value, code.dtype, state.program.program.instrs[at(code.out)].constant);
  state.table.load_strided[size_index(code.dtype)](to, value, 0, at(n));
}

void begin_scan(const BlockState& state, std::size_t k, std::int64_t lanes) {
  const Instr& instr = state.program.program.instrs[at(state.program.scans[k])];
  const std::size_t bytes = at(lanes) * size_of(instr.dtype);
  if (instr.b < 0) {
    std::memset(scan_sum(state, k), 0, bytes);
  } else {
    std::memcpy(scan_sum(state, k), state.values[instr.b], bytes);
  }
}

void run_scan(const BlockState& state, const Code& code, const Block& block) {
  if (state.program.mode == Mode::Lanes) {
    void* sum = scan_sum(state, at(code.site));
    code.fn(sum, sum, state.values[code.a], state.values[code.a], at(block.n));
    std::memcpy(state.values[code.out], sum, at(block.n) * size_of(code.dtype));
    return;
  }
  switch (code.dtype) {
    case DType::f32:
      return scan_block<float>(state, code, block);
    case DType::f64:
      return scan_block<double>(state, code, block);
    case DType::i32:
      return scan_block<std::int32_t>(state, code, block);
    case DType::i64:
      return scan_block<std::int64_t>(state, code, block);
    default:
      return scan_block<std::uint8_t>(state, code, block);
  }
}

bool run_product(BlockState& state, const Phase& phase, const Block& block) {
  if (phase.product_a < 0 || state.launch.outer_extents.size() != 1) return false;
  const BoundSite& a = state.launch.sites[at(phase.product_a)];
  const BoundSite& b = state.launch.sites[at(phase.product_b)];
  if (a.masks > 0 || b.masks > 0) return false;
  const BoundAffine& at_a = state.launch.affines[at(a.affine)];
  const BoundAffine& at_b = state.launch.affines[at(b.affine)];
  const std::int64_t depth_a = state.launch.coefficients[at_a.outer],
                     depth_b = state.launch.coefficients[at_b.outer];
  const bool dots = depth_a == 1 && depth_b == 1 && (at_a.step == 0 || at_b.step == 0);
  if (!dots && !(at_a.step == 0 && at_b.step == 1) && !(at_a.step == 1 && at_b.step == 0))
    return false;
  state.cursor.set_outer(0);
  const ReduceSite& reduce = state.program.reduces[at(phase.reduces[0])];
  std::byte* out = static_cast<std::byte*>(state.values[reduce.instr]);
  const int type = type_index(reduce.dtype), runs = a.linear && b.linear ? 1 : block.runs;
  for (int r = 0; r < runs; ++r) {
    const std::int64_t lane = runs == 1 ? 0 : state.cursor.run_lane(r);
    const std::size_t n = at((runs == 1 ? block.n : state.cursor.run_lane(r + 1)) - lane);
    const void* left = state.memory_at(a, state.cursor.index_at(a.affine, r, lane), reduce.dtype);
    const void* right = state.memory_at(b, state.cursor.index_at(b.affine, r, lane), reduce.dtype);
    void* to = out + at(lane) * size_of(reduce.dtype);
    const std::int64_t depth = state.launch.outer_points;
    if (dots && at_a.step == 0) {
      state.table.dots[type](to, left, right, at_b.step, depth, n);
    } else if (dots) {
      state.table.dots[type](to, right, left, at_a.step, depth, n);
    } else if (at_a.step == 0) {
      state.table.product[type](to, left, depth_a, right, depth_b, depth, n);
    } else {
      state.table.product[type](to, right, depth_b, left, depth_a, depth, n);
    }
  }
  return true;
}

}  // namespace volta::cpu
