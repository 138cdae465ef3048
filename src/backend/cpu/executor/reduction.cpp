// Reductions over lanes and over rows.
#include "backend/cpu/executor/reduction.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace volta::cpu {
namespace {

using kernel::ReduceOp;
using kernel::ScalarOp;

constexpr std::size_t at(std::int64_t n) { return static_cast<std::size_t>(n); }
constexpr bool is_arg(ReduceOp op) { return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin; }
constexpr int best_index(ReduceOp op) { return op == ReduceOp::ArgMax ? 0 : 1; }
bool in_tree(const Reduction& r) { return r.op == ReduceOp::Sum && is_floating(r.dtype); }

ComputeFn combine(const Reduction& r) {
  switch (r.op) {
    case ReduceOp::Sum:
      return simd().scalar(ScalarOp::add, r.dtype);
    case ReduceOp::Prod:
      return simd().scalar(ScalarOp::mul, r.dtype);
    case ReduceOp::Max:
      return simd().scalar(ScalarOp::maximum, r.dtype);
    default:
      return simd().scalar(ScalarOp::minimum, r.dtype);
  }
}

template <class T>
T identity_value(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::Sum:
      return T{0};
    case ReduceOp::Prod:
      return T{1};
    case ReduceOp::Max:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    default:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
}

// Fills n elements with the identity of the operation.
void fill_identity(const Reduction& r, void* to, std::int64_t n) {
  alignas(8) std::byte value[8] = {};
  const auto put = [&value](auto v) { std::memcpy(value, &v, sizeof v); };
  switch (r.dtype) {
    case DType::f32:
      put(identity_value<float>(r.op));
      break;
    case DType::f64:
      put(identity_value<double>(r.op));
      break;
    case DType::i32:
      put(identity_value<std::int32_t>(r.op));
      break;
    case DType::i64:
      put(identity_value<std::int64_t>(r.op));
      break;
    case DType::boolean:
      put(static_cast<std::uint8_t>(r.op == ReduceOp::Prod || r.op == ReduceOp::Min ? 1 : 0));
      break;
    default:
      put(identity_value<std::uint8_t>(r.op));
      break;
  }
  simd().splat[size_index(r.dtype)](to, value, nullptr, nullptr, at(n));
}

// Adds partial sum number `count` (from 0) to a tree whose levels are `bytes` apart; full levels
// carry upwards as in binary counting.
void push(const Reduction& r, std::byte* levels, std::size_t bytes, const void* partial,
          std::int64_t count, std::int64_t n) {
  const ComputeFn add = combine(r);
  int level = 0;
  const void* carry = partial;
  for (; (count >> level & 1) != 0; ++level) {
    std::byte* full = levels + at(level) * bytes;
    add(full, full, carry, nullptr, at(n));
    carry = full;
  }
  std::memcpy(levels + at(level) * bytes, carry, at(n) * size_of(r.dtype));
}

// total += all levels in use after `count` pushes, lowest first.
void collect(const Reduction& r, const std::byte* levels, std::size_t bytes, void* total,
             std::int64_t count, std::int64_t n) {
  const ComputeFn add = combine(r);
  for (int level = 0; count >> level != 0; ++level) {
    if ((count >> level & 1) != 0) add(total, total, levels + at(level) * bytes, nullptr, at(n));
  }
}

// Folds the lanes by halves in the order of the vector kernels, but in processor registers.
template <class T, class F>
void join_halves(const Reduction& r, F combine) {
  constexpr std::size_t width = kFoldBytes / sizeof(T);
  T lanes[width];
  std::memcpy(lanes, r.state, sizeof lanes);
  for (std::size_t half = width / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] = combine(lanes[i], lanes[i + half]);
  }
  std::memcpy(r.result, lanes, sizeof(T));
}
template <class T>
void join_lanes(const Reduction& r) {
  switch (r.op) {
    case ReduceOp::Sum:
      return join_halves<T>(r, [](T a, T b) { return a + b; });
    case ReduceOp::Prod:
      return join_halves<T>(r, [](T a, T b) { return a * b; });
    case ReduceOp::Max:
      return join_halves<T>(r, [](T a, T b) { return a != a || a > b ? a : b; });
    default:
      return join_halves<T>(r, [](T a, T b) { return a != a || a < b ? a : b; });
  }
}

// A row's state is [running fold][levels ...][counter], or [best value][position] for
// arg-reductions.
std::int64_t& counter(const Reduction& r) {
  return *reinterpret_cast<std::int64_t*>(r.state + kRowReductionBytes - kFoldBytes);
}

}  // namespace

void begin_lanes(const Reduction& r, std::int64_t lanes) {
  if (is_arg(r.op)) {
    std::memset(r.result, 0, at(lanes) * sizeof(std::int64_t));
  } else {
    fill_identity(r, r.result, lanes);
  }
}

void accumulate_lanes(const Reduction& r, const void* values, std::int64_t step,
                      std::int64_t lanes) {
  if (is_arg(r.op)) {
    simd().track_best[best_index(r.op)][type_index(r.dtype)](
        r.state, static_cast<std::int64_t*>(r.result), values, step, at(lanes));
    return;
  }
  combine(r)(r.result, r.result, values, nullptr, at(lanes));
  if (in_tree(r) && r.levels > 0 && (step + 1) % kLaneRun == 0) {
    push(r, r.state, r.level_bytes, r.result, step / kLaneRun, lanes);
    fill_identity(r, r.result, lanes);
  }
}

bool folds_rows(ReduceOp op, DType dtype) {
  return !is_arg(op) && simd().fold_rows[static_cast<int>(op)][type_index(dtype)] != nullptr;
}

void accumulate_lane_rows(const Reduction& r, const void* values, std::int64_t stride,
                          std::int64_t steps, std::int64_t lanes) {
  const FoldRowsFn fold = simd().fold_rows[static_cast<int>(r.op)][type_index(r.dtype)];
  const bool tree = in_tree(r) && r.levels > 0;
  const std::int64_t run = tree ? kLaneRun : steps;
  const std::byte* from = static_cast<const std::byte*>(values);
  for (std::int64_t step = 0; step < steps; step += run) {
    const std::int64_t rows = std::min(run, steps - step);
    fold(r.result, from + step * stride * static_cast<std::int64_t>(size_of(r.dtype)), stride, rows,
         at(lanes));
    if (tree && rows == kLaneRun) {
      push(r, r.state, r.level_bytes, r.result, step / kLaneRun, lanes);
      fill_identity(r, r.result, lanes);
    }
  }
}

void accumulate_first_lanes(const Reduction& r, const void* values, std::int64_t lanes) {
  // Kernels process whole vectors; the sums of the lanes beyond the end are saved and restored.
  std::byte beyond[at(kPad) * sizeof(double)];
  std::byte* end = static_cast<std::byte*>(r.result) + at(lanes) * size_of(r.dtype);
  const std::size_t bytes = at(padded(lanes) - lanes) * size_of(r.dtype);
  std::memcpy(beyond, end, bytes);
  combine(r)(r.result, r.result, values, nullptr, at(lanes));
  std::memcpy(end, beyond, bytes);
}

void join_groups(const Reduction& r, std::int64_t groups, std::int64_t lanes) {
  for (groups /= 2; groups > 0; groups /= 2) {
    const std::byte* half =
        static_cast<const std::byte*>(r.result) + at(groups * lanes) * size_of(r.dtype);
    combine(r)(r.result, r.result, half, nullptr, at(groups * lanes));
  }
}

void finish_lanes(const Reduction& r, std::int64_t steps, std::int64_t lanes) {
  if (in_tree(r) && r.levels > 0)
    collect(r, r.state, r.level_bytes, r.result, steps / kLaneRun, lanes);
}

bool folds(ReduceOp op) { return !is_arg(op); }

void begin_row(const Reduction& r) {
  counter(r) = 0;
  if (is_arg(r.op)) {
    std::memset(r.result, 0, sizeof(std::int64_t));
  } else {
    fill_identity(r, r.state, static_cast<std::int64_t>(kFoldBytes / size_of(r.dtype)));
  }
}

void accumulate_row(const Reduction& r, const void* values, std::int64_t position, std::int64_t n,
                    bool streamed) {
  if (is_arg(r.op)) {
    const std::size_t best = simd().find_best[best_index(r.op)][type_index(r.dtype)](values, at(n));
    const std::byte* winner = static_cast<const std::byte*>(values) + best * size_of(r.dtype);
    std::int64_t* result = static_cast<std::int64_t*>(r.result);
    const std::int64_t place = position + static_cast<std::int64_t>(best);
    if (position == 0) {
      std::memcpy(r.state, winner, size_of(r.dtype));
      *result = place;
    } else {
      simd().track_best[best_index(r.op)][type_index(r.dtype)](r.state, result, winner, place, 1);
    }
    return;
  }
  const auto& fold = streamed ? simd().fold_streamed : simd().fold;
  fold[static_cast<int>(r.op)][type_index(r.dtype)](r.state, values, at(n));
  folded_block(r);
}

void folded_block(const Reduction& r) {
  if (in_tree(r) && ++counter(r) % r.run_blocks == 0) {
    const std::int64_t width = static_cast<std::int64_t>(kFoldBytes / size_of(r.dtype));
    push(r, r.state + kFoldBytes, kFoldBytes, r.state, counter(r) / r.run_blocks - 1, width);
    fill_identity(r, r.state, width);
  }
}

void finish_row(const Reduction& r) {
  if (is_arg(r.op)) return;
  std::int64_t width = static_cast<std::int64_t>(kFoldBytes / size_of(r.dtype));
  if (in_tree(r))
    collect(r, r.state + kFoldBytes, kFoldBytes, r.state, counter(r) / r.run_blocks, width);
  if (r.dtype == DType::f32) return join_lanes<float>(r);
  const ComputeFn fn = combine(r);
  for (width /= 2; width > 0; width /= 2) {
    fn(r.state, r.state, r.state + at(width) * size_of(r.dtype), nullptr, at(width));
  }
  std::memcpy(r.result, r.state, size_of(r.dtype));
}

}  // namespace volta::cpu
