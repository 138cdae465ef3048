// Chooses schedules. Sizes matter only by classes: the power of two of a row's length, whether
// vector loads are possible, and whether there is enough work to fill a GPU.
#include "plan/codegen/schedule.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernel/dependence.h"
#include "kernel/row_plan.h"
#include "kernel/vectors.h"

namespace volta::plan {

using kernel::Instr;
using kernel::InstrKind;
using kernel::Role;
using kernel::Schedule;
using kernel::ScheduleKind;

namespace {

constexpr std::int64_t kVectorPoints = std::int64_t{1} << 19;  // least points of a Map with vectors
constexpr std::int64_t kRowPoints = std::int64_t{1} << 16;     // least points of rows with vectors
constexpr std::int64_t kTilePoints = std::int64_t{1} << 14;
constexpr std::int64_t kTileSide = 32;          // shorter axes are not worth transposing
constexpr std::int64_t kTileBytes = 34 * 1024;  // limit for shared memory
constexpr std::int64_t kColumnThreads = std::int64_t{1} << 16;
constexpr std::int64_t kSharedColumns = 2048, kSharedLength = 64;
constexpr std::int64_t kPeeledLength = 4096;              // least length of rows with peeled ends
constexpr std::int64_t kManyRows = 264;                   // number of blocks that fill a GPU
constexpr std::int64_t kLongRow = std::int64_t{1} << 15;  // rows this long take 1024 threads
constexpr std::int64_t kUnrolledInstructions = 1024;  // keeps a kernel's code and registers small
constexpr std::int64_t kKeptInstructions = 3072;      // limit for rows kept in registers
// The number of registers that hold a row: with 512 threads per block a thread has 128, with 1024
// threads it has 64. If only the row itself is loaded as vectors, more of them are available for
// it.
constexpr std::int64_t kKept512 = 76, kPeeled512 = 100, kKept1024 = 40, kElements1024 = 50;

class Chooser {
 public:
  Chooser(const kernel::Program& program, const std::vector<std::int64_t>& ints, bool aligned)
      : program_(program),
        ints_(ints),
        aligned_(aligned),
        live_(kernel::live_instructions(program)),
        dependence_(kernel::axis_dependence(program)) {
    for (int n = 0; n < static_cast<int>(program.axes.size()); ++n) {
      const bool par = program.axes[static_cast<std::size_t>(n)].role == Role::Par;
      (par ? rows_ : length_) *= extent(n);
      (par ? last_par_ : last_red_) = n;
    }
  }

  Schedule choose(std::int64_t largest, bool massively_parallel) {
    Schedule& schedule = program_.schedule;
    schedule = {};
    // The lengths of bounded rows add up to at most the number of elements that are read.
    const std::int64_t points = bounded() ? std::max(rows_, length_) : rows_ * length_;
    const std::int64_t number = ints_.empty() ? 0 : *std::max_element(ints_.begin(), ints_.end());
    schedule.index64 =
        std::max({largest, points, number}) > std::numeric_limits<std::int32_t>::max() / 2;
    if (last_red_ < 0) {
      if (massively_parallel) choose_map();
      return schedule;
    }
    schedule.kind = ScheduleKind::Row;
    if (bounded()) return schedule;  // each thread stops at the end of its row
    choose_row(massively_parallel);
    if (scans()) {
      // The lanes take one element each per round.
      schedule.items = schedule.whole = 0;
      schedule.vec = 1;
      schedule.peeled = false;
      if (schedule.lanes > 1) schedule.lanes = std::max(schedule.lanes, 32);
    }
    return schedule;
  }

 private:
  bool bounded() const { return last_red_ >= 0 && program_.axes.back().bound >= 0; }
  bool scans() const {
    return std::any_of(program_.instrs.begin(), program_.instrs.end(),
                       [](const Instr& i) { return i.kind == InstrKind::Scan; });
  }
  std::int64_t extent(int axis) const {
    return program_.axes[static_cast<std::size_t>(axis)].extent.in(ints_);
  }
  const Instr& instr(int n) const { return program_.instrs[static_cast<std::size_t>(n)]; }
  int instr_count() const { return static_cast<int>(program_.instrs.size()); }
  bool live(int n) const { return live_[static_cast<std::size_t>(n)]; }
  bool is_access(int n) const {
    return live(n) && (instr(n).kind == InstrKind::Load || instr(n).kind == InstrKind::Store);
  }
  std::int64_t element_size(int n) const {
    return static_cast<std::int64_t>(
        size_of(program_.slots[static_cast<std::size_t>(instr(n).slot)].dtype));
  }

  // ---- Maps.

  void choose_map() {
    if (program_.axes.empty() || rows_ == 0) return;
    choose_tile();
    Schedule& schedule = program_.schedule;
    if (schedule.tile > 0) return;
    const int vec = widest_vector(last_par_);
    // A Map of several axes has rows, and vectors must have the same alignment in all rows.
    const bool whole_rows = last_par_ == 0 || extent(last_par_) % vec == 0;
    if (rows_ >= kVectorPoints && whole_rows &&
        kernel::accesses_allow_vectors(program_, ints_, last_par_, vec)) {
      schedule.vec = vec;
    }
  }

  // Returns how many of the largest elements fit into 16 bytes if most accesses read neighbouring
  // points of `axis` from adjacent memory, otherwise 1.
  int widest_vector(int axis) const {
    if (!aligned_) return 1;
    int side_by_side = 0, scattered = 0;
    std::int64_t size = 1;
    for (int n = 0; n < instr_count(); ++n) {
      if (!is_access(n) || (dependence_[static_cast<std::size_t>(n)] >> axis & 1) == 0) continue;
      if (kernel::is_contiguous(program_, n, axis, dependence_)) {
        ++side_by_side;
        size = std::max(size, element_size(n));
      } else {
        ++scattered;
      }
    }
    if (side_by_side == 0 || scattered > side_by_side) return 1;
    std::int64_t vec = std::min<std::int64_t>(16 / size, 8);
    while (vec > 1 && vec * instr_count() > kUnrolledInstructions) vec /= 2;
    return static_cast<int>(vec);
  }

  // Chooses a tile if loads walk another axis element by element than stores do.
  void choose_tile() {
    if (rows_ < kTilePoints || extent(last_par_) < kTileSide) return;
    int best = -1;
    std::int64_t most = 0, size = 1;
    for (int axis = 0; axis < last_par_; ++axis) {
      if (extent(axis) < kTileSide) continue;
      std::int64_t bytes = 0;
      for (int n = 0; n < instr_count(); ++n) {
        if (live(n) && kernel::is_staged(program_, n, axis)) bytes += element_size(n);
      }
      if (bytes > most) most = bytes, best = axis;
    }
    if (best < 0) return;
    for (int n = 0; n < instr_count(); ++n) {
      if (is_access(n)) size = std::max(size, element_size(n));
    }
    for (const int side : {64, 32}) {
      if (kernel::tile_bytes(program_, best, side) > kTileBytes) continue;
      program_.schedule.tile = side;
      program_.schedule.tile_axis = best;
      program_.schedule.vec = aligned_ ? static_cast<int>(std::min<std::int64_t>(16 / size, 8)) : 1;
      return;
    }
  }

  // ---- Rows.

  void choose_row(bool massively_parallel) {
    // Find the axis that accesses walk fastest. Values with one element per row do not count.
    int along_row = 0, across_rows = 0;
    for (int n = 0; n < instr_count(); ++n) {
      if (instr(n).kind != InstrKind::Load && instr(n).kind != InstrKind::Store) continue;
      const auto& terms = instr(n).index.terms;
      const bool by_row = std::none_of(terms.begin(), terms.end(), [&](const kernel::Term& term) {
        return program_.axes[static_cast<std::size_t>(term.axis)].role == Role::Red;
      });
      if (by_row) continue;
      for (const kernel::Term& term : instr(n).index.terms) {
        along_row += term.axis == last_red_ && term.coefficient.in(ints_) == 1;
        across_rows += term.axis == last_par_ && term.coefficient.in(ints_) == 1;
      }
    }
    const bool alone = length_ < 32 || (across_rows > along_row && rows_ >= 32);
    if (massively_parallel) {
      // If there are too few columns to occupy a GPU, lanes share them, whatever the accesses look
      // like.
      const bool shared = length_ >= kSharedLength && rows_ < kSharedColumns;
      alone && !shared ? choose_columns() : choose_lanes();
    } else if (!alone) {
      choose_cpu_lanes();
    }
  }

  // The CPU only distinguishes one lane from several; its executor chooses registers itself.
  void choose_cpu_lanes() {
    Schedule& schedule = program_.schedule;
    schedule.lanes = static_cast<int>(std::clamp<std::int64_t>(rounded_length() / 4, 32, 1024));
    const std::int64_t items = (length_ + schedule.lanes - 1) / schedule.lanes;
    if (kernel::analyze(program_).phases > 1 && items <= 16)
      schedule.items = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(items)));
  }

  std::int64_t rounded_length() const {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length_)));
  }

  // One lane per column: a thread takes neighbouring columns as long as there are enough threads.
  void choose_columns() {
    if (last_par_ < 0 || rows_ == 0) return;
    int vec = std::min(widest_vector(last_par_), 4);
    while (vec > 1 && (rows_ / vec < kColumnThreads ||
                       !kernel::rows_allow_vectors(program_, ints_, last_par_, vec))) {
      vec /= 2;
    }
    program_.schedule.vec = vec;
  }

  // Lanes share a row: a thread takes 4 elements if rows are few, otherwise 8 to 16.
  void choose_lanes() {
    Schedule& schedule = program_.schedule;
    schedule.lanes = 32;  // more than one, so that vectors lie along the row
    int vec = widest_vector(last_red_);
    if (rows_ * length_ < kRowPoints) vec = 1;
    if (vec > 1 && !kernel::rows_allow_vectors(program_, ints_, last_red_, vec)) {
      schedule.peeled =
          length_ >= kPeeledLength && kernel::rows_allow_peeled_vectors(program_, ints_, vec);
      if (!schedule.peeled) vec = 1;
    }
    schedule.vec = vec;
    const bool few = rows_ < kManyRows;
    const int words = kernel::kept_words(program_);
    const bool revisited = words > 0;
    const std::int64_t least = vec == 1 || few ? 32 : 8, most = few ? 1024 : revisited ? 512 : 256;
    const std::int64_t share = vec == 1 || few ? 4 : 8;
    schedule.lanes = static_cast<int>(std::clamp(rounded_length() / share, least, most));
    if (revisited) {
      choose_items(words);
    } else if (few) {
      // There is no other work to hide the latency of loads, so all loads of a short row are issued
      // at once.
      keep_row(schedule.lanes, vec, 1, 8);
    }
  }

  // Rows that several phases read stay in registers if they fit.
  void choose_items(int words) {
    Schedule& schedule = program_.schedule;
    const int vec = schedule.vec;
    for (int lanes = schedule.lanes; lanes <= 512; lanes *= 2) {
      if (keep_row(lanes, vec, words, kKept512)) return;
    }
    if (schedule.lanes == 1024 && keep_row(1024, vec, words, kKept1024)) return;
    const bool peeled = schedule.peeled;
    schedule.peeled = vec > 1 && kernel::rows_allow_peeled_vectors(program_, ints_, vec);
    // Shorter vectors leave less of the last one unused.
    for (int shorter = vec; schedule.peeled && shorter > 1; shorter /= 2) {
      if (keep_row(512, shorter, words, kPeeled512)) return;
    }
    schedule.peeled = peeled;
    if (keep_row(1024, vec, words, kKept1024) || keep_row(1024, 1, words, kElements1024)) return;
    if (schedule.vec == 1 && rounded_length() >= kLongRow) schedule.lanes = 1024;
  }

  bool keep_row(int lanes, int vec, int words, std::int64_t room) {
    Schedule& schedule = program_.schedule;
    const bool peeled = schedule.peeled && vec > 1;
    const std::int64_t together = std::int64_t{lanes} * vec;
    const std::int64_t grouped = peeled ? length_ / vec * vec : length_;
    std::int64_t items = (grouped + together - 1) / together * vec, whole = 0;
    // Powers of two are preferred, or even numbers if powers of two would cost registers.
    if (items <= 16 && !peeled) {
      items = std::max<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(items)), vec);
    } else {
      items += items % 2;
      whole = items - std::max(vec, 2);
    }
    if (items * words > room || items * instr_count() > kKeptInstructions) return false;
    schedule.lanes = lanes;
    schedule.vec = vec;
    schedule.peeled = peeled;
    schedule.items = static_cast<int>(items);
    schedule.whole = static_cast<int>(whole);
    return true;
  }

  kernel::Program program_;
  const std::vector<std::int64_t>& ints_;
  const bool aligned_;
  const std::vector<bool> live_;
  const std::vector<std::uint64_t> dependence_;
  std::int64_t rows_ = 1, length_ = 1;
  int last_par_ = -1, last_red_ = -1;
};

}  // namespace

Schedule choose_schedule(const kernel::Program& program, const std::vector<std::int64_t>& ints,
                         std::int64_t largest, bool massively_parallel, bool aligned) {
  return Chooser(program, ints, aligned).choose(largest, massively_parallel);
}

}  // namespace volta::plan
