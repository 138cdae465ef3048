// Finds the records of a backward pass.
#include "graph/autograd/pass_records.h"

#include <algorithm>
#include <atomic>

#include "core/thread_owned.h"
#include "platform/thread_local.h"

namespace volta::graph {
namespace {

// Pass numbers are unique in the process. Each thread reserves kStretch of them at a time.
std::uint32_t next_pass() {
  constexpr std::uint32_t kStretch = 1024;
  static std::atomic<std::uint32_t> taken{0};
  VOLTA_INITIAL_EXEC static constinit thread_local std::uint32_t last = 0;
  if (last % kStretch == 0) last = taken.fetch_add(kStretch, std::memory_order_relaxed);
  return ++last;
}

std::atomic<bool> some_pass_marks{false};

// Memory that a thread reuses from pass to pass.
struct Kept {
  std::vector<Tape*> found;
  std::vector<PassRecords::Record> records;
};

}  // namespace

PassRecords::PassRecords()
    : pass_(next_pass()),
      marks_(!some_pass_marks.exchange(true, std::memory_order_acquire)),
      found_(std::move(ThreadOwned<Kept>::get().found)),
      records_(std::move(ThreadOwned<Kept>::get().records)) {
  found_.clear();
  records_.clear();
}

PassRecords::~PassRecords() {
  if (marks_) some_pass_marks.store(false, std::memory_order_release);
  records_.clear();
  Kept& kept = ThreadOwned<Kept>::get();
  kept.found = std::move(found_);
  kept.records = std::move(records_);
}

bool PassRecords::add(Tape* tape) {
  if (!marks_) {
    if (!table_.try_emplace(tape, 0).second) return false;
  } else {
    if (tape->visit == pass_) return false;
    tape->visit = pass_;
  }
  found_.push_back(tape);
  return true;
}

void PassRecords::add_root(Tape* tape) {
  if (tape != nullptr && add(tape)) roots_.emplace_back(tape);
}

void PassRecords::reach() {
  for (std::size_t i = 0; i < found_.size(); ++i) {
    for (const Edge& edge : found_[i]->edges) {
      if (edge.tape) add(edge.tape.get());
    }
  }
  const auto later = [](const Tape* a, const Tape* b) { return a->sequence > b->sequence; };
  if (!std::is_sorted(found_.begin(), found_.end(), later))
    std::sort(found_.begin(), found_.end(), later);
  records_.reserve(found_.size());
  for (Tape* tape : found_) {
    if (marks_) {
      tape->slot = static_cast<std::uint32_t>(records_.size());
    } else {
      table_[tape] = records_.size();
    }
    records_.push_back({tape, Tensor(), nullptr});
  }
}

void PassRecords::cut_off() {
  for (auto tape = found_.rbegin(); tape != found_.rend(); ++tape) (*tape)->edges.clear();
  records_.clear();  // most of the records are destroyed by now
  found_.clear();
  roots_.clear();
}

}  // namespace volta::graph
