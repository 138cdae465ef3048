// Plans the phases of a Row.
#include "kernel/row_plan.h"

#include <algorithm>

#include "kernel/dependence.h"

namespace volta::kernel {
namespace {

constexpr int kEarlyWords = 24;  // registers for Loads issued before their phase needs them

int words_of(DType dtype) { return std::max<int>(1, static_cast<int>(size_of(dtype)) / 4); }

class RowPlanner {
 public:
  RowPlanner(const Program& program, int items)
      : program_(program),
        items_(items),
        analysis_(analyze(program)),
        live_(live_instructions(program)),
        done_(program.instrs.size()) {}

  RowPlan plan() {
    RowPlan result;
    result.kept.assign(program_.instrs.size(), false);
    for (int phase = 0; phase < analysis_.phases; ++phase)
      result.phases.push_back(plan_phase(phase, result.kept));
    return result;
  }

 private:
  const Instr& instr(std::size_t n) const { return program_.instrs[n]; }

  // A Load that depends on no other value of the row.
  bool is_free_load(std::size_t n) const {
    return live_[n] && instr(n).kind == InstrKind::Load && instr(n).a < 0 &&
           analysis_.instrs[n].domain == Domain::Full;
  }

  RowPhase plan_phase(int phase, std::vector<bool>& kept) {
    std::vector<bool> needed = row_values_of_phase(program_, analysis_, phase);
    if (items_ > 0 && phase == 0) need_early_loads(needed);
    if (items_ > 0 && phase > 0) stop_at_done(needed, phase);
    RowPhase plan;
    int words = 0;
    for (std::size_t n = 0; n < needed.size(); ++n) {
      if (needed[n] && !done_[n] && is_free_load(n)) words += words_of(instr(n).dtype);
    }
    for (std::size_t n = 0; n < needed.size(); ++n) {
      if (!needed[n]) continue;
      const int number = static_cast<int>(n);
      if (instr(n).kind == InstrKind::Reduce) plan.reduces.push_back(number);
      if (instr(n).kind == InstrKind::Scan) plan.scans.push_back(number);
      if (done_[n]) {
        plan.fetch.push_back(number);
        kept[n] = true;
        continue;
      }
      const bool early =
          items_ > 0 && is_free_load(n) && (phase == 0 || words * items_ <= kEarlyWords);
      (early ? plan.loads : plan.compute).push_back(number);
      if (early) kept[n] = true;
      // Computing an index again is cheaper than keeping it.
      if (items_ > 0 && instr(n).kind != InstrKind::Index) done_[n] = true;
    }
    return plan;
  }

  // The first phase also issues the Loads of later phases if registers allow. It must issue those
  // of slots that are updated in place, because they have to be read before their Store.
  void need_early_loads(std::vector<bool>& needed) const {
    int words = 0;
    for (std::size_t n = 0; n < needed.size(); ++n) {
      if (is_free_load(n)) words += words_of(instr(n).dtype);
    }
    const bool all = words * items_ <= kEarlyWords;
    for (std::size_t n = 0; n < needed.size(); ++n) {
      const bool load = live_[n] && instr(n).kind == InstrKind::Load &&
                        analysis_.instrs[n].domain == Domain::Full;
      const bool updated = load && program_.slots[static_cast<std::size_t>(instr(n).slot)].written;
      if (updated || (all && is_free_load(n))) needed[n] = true;
    }
  }

  // Reduces `needed` to the values that this phase computes and the kept values that directly feed
  // them.
  void stop_at_done(std::vector<bool>& needed, int phase) const {
    std::vector<bool> direct(needed.size());
    for (std::size_t n = needed.size(); n-- > 0;) {
      const Instr& self = instr(n);
      const bool ends = self.kind == InstrKind::Reduce || self.kind == InstrKind::Store ||
                        (self.kind == InstrKind::Bounded && analysis_.instrs[n].phase == phase);
      needed[n] = needed[n] && (direct[n] || ends);
      if (!needed[n] || done_[n]) continue;
      for (const int operand : {self.a, self.b, self.c}) {
        if (operand >= 0) direct[static_cast<std::size_t>(operand)] = true;
      }
    }
  }

  const Program& program_;
  const int items_;
  const Analysis analysis_;
  const std::vector<bool> live_;
  std::vector<bool> done_;
};

}  // namespace

RowPlan plan_row(const Program& program) {
  return RowPlanner(program, program.schedule.items).plan();
}

int kept_words(const Program& program) {
  // With this many items, nothing is loaded ahead of its phase.
  const RowPlan plan = RowPlanner(program, kEarlyWords + 1).plan();
  const std::size_t phases = plan.phases.size();
  std::vector<int> words(phases, 0);  // words that live from phase p to the next
  for (std::size_t n = 0; n < program.instrs.size(); ++n) {
    std::size_t made = phases, last = 0;
    for (std::size_t p = 0; p < phases; ++p) {
      const auto has = [n](const std::vector<int>& list) {
        return std::find(list.begin(), list.end(), static_cast<int>(n)) != list.end();
      };
      if (made == phases && (has(plan.phases[p].loads) || has(plan.phases[p].compute))) made = p;
      if (has(plan.phases[p].fetch)) last = p;
    }
    for (std::size_t p = made; p < last; ++p) words[p] += words_of(program.instrs[n].dtype);
  }
  return *std::max_element(words.begin(), words.end());
}

}  // namespace volta::kernel
