// Allocates memory for timing a step: every buffer becomes a leaf of a plan with that step alone.
#include "runtime/tune/trial.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <variant>

#include "backend/registry.h"
#include "core/separate_counters.h"
#include "plan/calls/call.h"
#include "volta/counters.h"

namespace volta::plan {
namespace {

constexpr std::uint64_t kAlignment = 256;
// Twice the size of large GPUs' caches, so that a run finds no data of the previous one there.
constexpr std::uint64_t kCacheBytes = std::uint64_t{128} << 20;
constexpr std::uint64_t kMostSets = 8;
constexpr std::size_t kFillBytes = std::size_t{1} << 20;

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The free memory of the device, or the rest of its pool's limit if that is less.
std::optional<std::uint64_t> room_on(Backend& backend, int device) {
  std::optional<std::uint64_t> room = backend.free_memory(device);
  for_each_used_device([&](DeviceEntry& entry) {
    if (&entry.backend != &backend || entry.index != device) return;
    const MemoryStats stats = entry.pool.stats();
    if (stats.limit == 0) return;
    const std::uint64_t left = stats.limit - std::min(stats.limit, stats.reserved);
    room = std::min(room.value_or(left), left);
  });
  return room;
}

// The number of elements from a slot's first to the last that any access may touch.
std::int64_t span_of(const kernel::Program& program, const std::vector<std::int64_t>& ints,
                     int slot) {
  std::int64_t span = 1;
  for (const kernel::Instr& instr : program.instrs) {
    const bool access =
        instr.kind == kernel::InstrKind::Load || instr.kind == kernel::InstrKind::Store;
    if (!access || instr.slot != slot) continue;
    std::int64_t last = instr.index.offset.in(ints);
    for (const kernel::Term& term : instr.index.terms) {
      const std::int64_t extent = program.axes[static_cast<std::size_t>(term.axis)].extent.in(ints);
      last += std::max<std::int64_t>(0, term.coefficient.in(ints) * (extent - 1));
    }
    if (instr.kind == kernel::InstrKind::Load && instr.a >= 0) {
      const std::int64_t high = program.instrs[static_cast<std::size_t>(instr.a)].high.in(ints);
      last += std::max<std::int64_t>(0, instr.value_stride.in(ints) * (high - 1));
    }
    span = std::max(span, last + 1);
  }
  return span;
}

bool same(const BufferRef& a, const BufferRef& b) {
  return a.kind == b.kind && a.index == b.index && a.offset == b.offset;
}

// Fills memory with numbers near ±1 in any floating-point format.
void fill_floats(std::vector<std::byte>& bytes) {
  std::minstd_rand random(1);
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const auto bits = static_cast<std::uint32_t>(random());
    const auto number =
        static_cast<std::uint16_t>(0x3f00u | (bits >> 8 & 0xffu) | (bits >> 3 & 0x8000u));
    std::memcpy(bytes.data() + i, &number, sizeof number);
  }
}

template <class T>
void fill_integers(std::vector<std::byte>& bytes, std::int64_t high) {
  std::minstd_rand random(1);
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    const T number = static_cast<T>(static_cast<std::int64_t>(random()) % high);
    std::memcpy(bytes.data() + i, &number, sizeof number);
  }
}

// The smallest bound that the step checks indices against; random integers stay below it.
std::int64_t least_bound(const Step& step) {
  std::int64_t high = 2;
  const auto* kernel = std::get_if<KernelStep>(&step);
  if (kernel == nullptr) return high;
  bool found = false;
  for (const kernel::Instr& instr : kernel->program->instrs) {
    if (instr.kind != kernel::InstrKind::Bounded) continue;
    for (const Binding& segment : kernel->segments) {
      const std::int64_t bound = std::max<std::int64_t>(1, instr.high.in(segment.ints));
      high = found ? std::min(high, bound) : bound;
      found = true;
    }
  }
  return std::min<std::int64_t>(high, std::numeric_limits<std::int32_t>::max());
}

}  // namespace

Trial::Trial(Backend& backend, int device, const PlanSteps& plan, const Step& step)
    : backend_(backend), device_(device), plan_(plan), args_(plan.arg_words, 0) {
  const auto* kernel = std::get_if<KernelStep>(&step);
  if (kernel != nullptr) {
    add_buffers(*kernel);
  } else {
    Step call = step;
    for (const UsedBuffer& used : call_of(call)->buffers(call))
      add(*used.buffer, used.dtype, used.bytes);
  }
  for (BufferPlace& place : places_) {
    place.offset = set_bytes_;
    set_bytes_ += aligned(std::max<std::uint64_t>(place.bytes, 1));
  }
  std::uint64_t sets = std::clamp<std::uint64_t>(kCacheBytes / set_bytes_, 1, kMostSets);
  // Several segments take their addresses from a table, which would have to be sent for every set.
  if (kernel != nullptr && kernel->segments.size() > 1) sets = 1;
  // Half of the free memory is left to other threads.
  if (const auto room = room_on(backend, device)) {
    if (*room / 2 < set_bytes_) return;
    sets = std::min(sets, *room / 2 / set_bytes_);
  }
  memory_ = backend.allocate(device, sets * set_bytes_);
  if (!has_memory()) return;
  for (std::uint64_t set = 0; set < sets; ++set) {
    std::vector<Address>& addresses = sets_.emplace_back();
    for (const BufferPlace& place : places_)
      addresses.push_back({memory_.base, memory_.offset + set * set_bytes_ + place.offset});
  }
  try {
    fill(step);
  } catch (...) {
    release();
    throw;
  }
}

Trial::~Trial() { release(); }

void Trial::release() noexcept {
  if (!has_memory()) return;
  try {
    backend_.synchronize(device_);
    backend_.release(device_, memory_);
  } catch (...) {  // a lost device keeps its memory, and the next call reports the loss
  }
}

void Trial::add(const BufferRef& buffer, DType dtype, std::uint64_t bytes) {
  if (buffer.kind == BufferRef::Kind::Leaf) bytes = plan_.leaf_bytes[buffer.index];
  if (buffer.kind == BufferRef::Kind::Output) bytes = plan_.output_bytes[buffer.index];
  // The offset of a loop's buffer is that of the first iteration, which may lie outside.
  const bool is_walked = buffer.stride != 0 || buffer.walk != BufferRef::Walk::Stride;
  if (buffer.kind == BufferRef::Kind::Temp && !is_walked)
    bytes = std::min(bytes, plan_.arena_bytes - buffer.offset);
  const auto known = std::ranges::find_if(
      places_, [&](const BufferPlace& place) { return same(place.buffer, buffer); });
  if (known != places_.end()) {
    known->bytes = std::max(known->bytes, bytes);
  } else {
    places_.push_back({buffer, 0, bytes, dtype});
  }
}

void Trial::add_buffers(const KernelStep& step) {
  const kernel::Program& program = *step.program;
  for (const Binding& segment : step.segments) {
    for (std::size_t slot = 0; slot < program.slots.size(); ++slot) {
      const DType dtype = program.slots[slot].dtype;
      const std::int64_t span = span_of(program, segment.ints, static_cast<int>(slot));
      add(segment.buffers[slot], dtype, static_cast<std::uint64_t>(span) * size_of(dtype));
    }
    for (std::size_t n = 0; n < program.args.size(); ++n) {
      args_[segment.first_arg + n] =
          is_floating(program.args[n]) ? std::bit_cast<std::uint64_t>(0.5) : std::uint64_t{1};
    }
  }
}

void Trial::fill(const Step& step) {
  const std::int64_t high = least_bound(step);
  for (std::size_t n = 0; n < places_.size(); ++n) {
    const BufferPlace& place = places_[n];
    if (place.bytes == 0) continue;
    std::vector<std::byte> bytes(std::min<std::uint64_t>(aligned(place.bytes), kFillBytes));
    switch (place.dtype) {
      case DType::i32:
        fill_integers<std::int32_t>(bytes, high);
        break;
      case DType::i64:
        fill_integers<std::int64_t>(bytes, high);
        break;
      case DType::u8:
      case DType::boolean:
        fill_integers<std::uint8_t>(bytes, 2);
        break;
      default:
        fill_floats(bytes);
    }
    const Address first = sets_.front()[n];
    std::uint64_t done = std::min<std::uint64_t>(bytes.size(), place.bytes);
    backend_.upload(device_, first, bytes.data(), done);
    while (done < place.bytes) {
      const std::uint64_t more = std::min(done, place.bytes - done);
      backend_.copy(device_, {first.base, first.offset + done}, first, more);
      done += more;
    }
    for (std::size_t set = 1; set < sets_.size(); ++set)
      backend_.copy(device_, sets_[set][n], first, place.bytes);
  }
}

std::size_t Trial::leaf_of(const BufferRef& buffer) const {
  const auto found = std::ranges::find_if(
      places_, [&](const BufferPlace& place) { return same(place.buffer, buffer); });
  return static_cast<std::size_t>(found - places_.begin());
}

void Trial::move_to_leaves(Step& step) const {
  const auto move = [&](BufferRef& buffer) {
    buffer = {BufferRef::Kind::Leaf, static_cast<std::uint32_t>(leaf_of(buffer)), 0};
  };
  if (auto* kernel = std::get_if<KernelStep>(&step)) {
    for (Binding& segment : kernel->segments) std::ranges::for_each(segment.buffers, move);
    return;
  }
  for (const UsedBuffer& used : call_of(step)->buffers(step)) move(*used.buffer);
}

std::unique_ptr<Executable> Trial::prepare(const Step& step) const {
  PlanSteps one;
  one.low_memory = true;
  for (const BufferPlace& place : places_) one.leaf_bytes.push_back(place.bytes);
  one.arg_words = plan_.arg_words;
  one.steps.push_back(step);
  one.costs.emplace_back();
  move_to_leaves(one.steps.back());
  return backend_.prepare(device_, one);
}

void Trial::compile(const std::vector<const Step*>& steps) const {
  PlanSteps all;
  all.low_memory = true;
  for (const BufferPlace& place : places_) all.leaf_bytes.push_back(place.bytes);
  all.arg_words = plan_.arg_words;
  for (const Step* step : steps) {
    all.steps.push_back(*step);
    all.costs.emplace_back();
    move_to_leaves(all.steps.back());
  }
  backend_.prepare(device_, all);
}

double Trial::seconds(Executable& executable, int times) {
  using Clock = std::chrono::steady_clock;
  const auto run = [&] {
    executable.run(sets_[next_set_], {}, {}, args_);
    next_set_ = (next_set_ + 1) % sets_.size();
  };
  const SeparateCounters not_the_program;
  run();
  backend_.synchronize(device_);
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) run();
  backend_.synchronize(device_);
  return std::chrono::duration<double>(Clock::now() - start).count() / times;
}

}  // namespace volta::plan
