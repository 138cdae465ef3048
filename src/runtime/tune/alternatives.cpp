// Neighbours of a schedule: other block sizes, vector lengths and numbers of lanes per row, and
// rows that are kept in registers or read again.
#include "runtime/tune/alternatives.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernel/row_plan.h"
#include "kernel/vectors.h"
#include "volta/error.h"

namespace volta::plan {
namespace {

using kernel::InstrKind;
using kernel::Role;
using kernel::Schedule;
using kernel::ScheduleKind;

constexpr std::size_t kMost = 12;
constexpr std::int64_t kTileBytes = 48 * 1024;  // shared memory that needs no opt-in
constexpr std::int64_t kSharedLength = 64;      // the shortest row that several lanes share
// Limits for keeping a row in a thread's registers: words, items and unrolled instructions. They
// are higher than those of choose_schedule, because timing rejects schedules that spill registers.
constexpr std::int64_t kKeptWords = 128, kKeptItems = 128, kKeptInstructions = 3072;
constexpr std::int64_t kUnrolledInstructions = 1024;

class Neighbours {
 public:
  Neighbours(const kernel::Program& program, std::span<const Binding> segments)
      : program_(program), segments_(segments), usual_(program.schedule) {
    for (const kernel::Axis& axis : program.axes) bounded_ |= axis.bound >= 0;
    for (const kernel::Slot& slot : program.slots) {
      updates_ |= slot.read && slot.written;
      if (slot.read || slot.written) widest_ = std::max(widest_, size_of(slot.dtype));
    }
    scans_ = std::ranges::any_of(program.instrs,
                                 [](const kernel::Instr& i) { return i.kind == InstrKind::Scan; });
    longest_ = 0;
    for (const Binding& segment : segments) {
      std::int64_t length = 1;
      for (const kernel::Axis& axis : program.axes) {
        if (axis.role == Role::Red) length *= axis.extent.in(segment.ints);
      }
      longest_ = std::max(longest_, length);
    }
  }

  std::vector<Schedule> find() {
    if (usual_.kind == ScheduleKind::Map) {
      usual_.tile > 0 ? tiles() : points();
    } else if (usual_.lanes == 1) {
      columns();
    } else if (scans_) {
      scanned_rows();
    } else {
      rows();
    }
    return std::move(found_);
  }

 private:
  template <class Change>
  void add(const Change& change) {
    Schedule next = usual_;
    change(next);
    add(next);
  }

  void add(const Schedule& next) {
    if (found_.size() == kMost || next == usual_ || std::ranges::find(found_, next) != found_.end())
      return;
    if (next.vec * instructions() > kUnrolledInstructions && next.vec > usual_.vec) return;
    kernel::Program tried = program_;
    tried.schedule = next;
    try {
      kernel::validate(tried);
    } catch (const BackendError&) {
      return;
    }
    if (std::ranges::all_of(segments_, [&](const Binding& segment) {
          return kernel::schedule_allows(tried, segment.ints);
        }))
      found_.push_back(next);
  }

  std::int64_t instructions() const { return static_cast<std::int64_t>(program_.instrs.size()); }
  // The number of elements in a vector of 16 bytes.
  int whole_vector() const { return std::clamp(static_cast<int>(16 / widest_), 1, 8); }

  void blocks(std::initializer_list<int> threads) {
    for (const int count : threads) add([&](Schedule& s) { s.threads = count; });
  }

  // ---- Maps.

  void points() {
    if (program_.axes.empty()) return;
    const int vector = whole_vector();
    for (const int vec : {vector, 2 * vector, vector / 2, 1}) {
      if (vec >= 1 && vec <= 16) add([&](Schedule& s) { s.vec = vec; });
    }
    blocks({512, 128, 1024});
    for (const int threads : {512, 128}) {
      add([&](Schedule& s) { s.vec = usual_.vec > 1 ? 1 : vector, s.threads = threads; });
    }
  }

  void tiles() {
    blocks({128, 512});
    const int other = usual_.tile == 64 ? 32 : 64;
    if (kernel::tile_bytes(program_, usual_.tile_axis, other) <= kTileBytes) {
      for (const int threads : {0, 128, 512})
        add([&](Schedule& s) { s.tile = other, s.threads = threads; });
    }
    add([](Schedule& s) { s.vec /= 2; });
    add([](Schedule& s) { s.tile = 0, s.tile_axis = -1, s.vec = 1; });
  }

  // ---- Rows reduced by one thread each.

  void columns() {
    for (const int vec : {4, 2, 1}) add([&](Schedule& s) { s.vec = vec; });
    blocks({256, 64, 512, 32});
    // With several lanes per row, one lane could overwrite a value that another has yet to read.
    if (bounded_ || updates_ || longest_ < kSharedLength) return;
    for (const int lanes : {8, 32, 128}) {
      if (lanes <= longest_) add([&](Schedule& s) { s.lanes = lanes, s.vec = 1; });
    }
  }

  // ---- Rows reduced by several lanes.

  void scanned_rows() {
    for (const int lanes : {2 * usual_.lanes, usual_.lanes / 2, 4 * usual_.lanes}) {
      if (lanes >= 32) add([&](Schedule& s) { s.lanes = lanes; });
    }
    if (usual_.lanes == 32) blocks({256, 64});
  }

  void rows() {
    const int words = std::max(kernel::kept_words(program_), 1);
    const bool revisited = kernel::kept_words(program_) > 0;
    const auto shared = [&](int lanes, int vec, bool peeled, bool kept) {
      if (lanes < 2 || lanes > 1024 || vec < 1) return;
      if (lanes > std::max<std::int64_t>(usual_.lanes, longest_)) return;
      Schedule next = usual_;
      next.lanes = lanes;
      next.vec = vec;
      next.peeled = peeled && vec > 1;
      next.items = next.whole = 0;
      if (kept && !keep(next, words)) return;
      add(next);
    };
    const int lanes = usual_.lanes, vec = usual_.vec;
    const bool peeled = usual_.peeled, kept = usual_.items > 0;
    shared(2 * lanes, vec, peeled, kept);
    shared(lanes / 2, vec, peeled, kept);
    shared(lanes, vec, peeled, !kept);
    shared(4 * lanes, vec, peeled, kept);
    shared(lanes / 4, vec, peeled, kept);
    if (lanes <= 32) blocks({256, 64});
    if (vec > 1) {
      shared(lanes, vec / 2, peeled, kept);
      shared(lanes, 1, false, kept);
    } else {
      shared(lanes, whole_vector(), false, kept);
      shared(lanes, whole_vector(), true, kept);
    }
    shared(2 * lanes, vec, peeled, !kept && revisited);
    shared(lanes, 2 * vec, peeled, kept);
  }

  // Sets the number of items per thread that keeps the longest row in registers; returns false if
  // the row is too long.
  bool keep(Schedule& s, int words) const {
    const std::int64_t together = std::int64_t{s.lanes} * s.vec;
    const std::int64_t grouped = s.peeled ? longest_ / s.vec * s.vec : longest_;
    std::int64_t items = (grouped + together - 1) / together * s.vec;
    if (items <= 16 && !s.peeled) {
      items = std::max<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(items)), s.vec);
    } else {
      items += items % 2;
      if (s.lanes > 32) s.whole = static_cast<int>(items) - std::max(s.vec, 2);
    }
    if (items > kKeptItems || items * words > kKeptWords ||
        items * instructions() > kKeptInstructions)
      return false;
    s.items = static_cast<int>(items);
    return true;
  }

  const kernel::Program& program_;
  const std::span<const Binding> segments_;
  const Schedule usual_;
  bool bounded_ = false, updates_ = false, scans_ = false;
  std::size_t widest_ = 1;
  std::int64_t longest_ = 0;
  std::vector<Schedule> found_;
};

}  // namespace

std::vector<Schedule> alternatives(const kernel::Program& program,
                                   std::span<const Binding> segments) {
  return Neighbours(program, segments).find();
}

}  // namespace volta::plan
