// Comparing the groups of two groupings.
#include "plan/codegen/program_drafts.h"

#include <algorithm>
#include <utility>

#include "plan/codegen/emitter.h"

namespace volta::plan {
namespace {

bool are_same(const Space& a, const Space& b) {
  return a.reduced == b.reduced &&
         std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(), is_same);
}

}  // namespace

void ProgramDrafts::start(const Grouping& grouping) {
  grouping_ = &grouping;
  drafts_.clear();
  drafts_.resize(grouping.groups.size());
  find_changes();
}

void ProgramDrafts::keep(Grouping grouping) {
  before_ = std::move(grouping);
  drafts_before_ = std::move(drafts_);
}

void ProgramDrafts::find_changes() {
  is_changed_.assign(values_.size(), false);
  if (drafts_before_.empty()) return;
  for (const ValueId id : values_.ids()) {
    const std::size_t i = id.index();
    const bool in_memory = grouping_->in_memory(values_, id);
    bool changed =
        in_memory != before_.in_memory(values_, id) || grouping_->stored[i] != before_.stored[i];
    // Kernels ask for the memory behind reshapes even where a reshape is stored.
    if (!in_memory || values_[id].kind == ValueKind::Reshape) {
      for (const ValueId in : values_[id].in)
        changed = changed || (!in.is_none() && is_changed_[in.index()]);
    }
    is_changed_[i] = changed;
  }
}

// The group of the grouping before that the same kernel computes, if it has been emitted.
std::optional<std::size_t> ProgramDrafts::unchanged(std::size_t group) const {
  if (drafts_before_.empty()) return std::nullopt;
  const Group& now = grouping_->groups[group];
  const int number = before_.group_of[static_cast<std::size_t>(now.roots.front())];
  if (number < 0) return std::nullopt;
  const auto candidate = static_cast<std::size_t>(number);
  const Group& then = before_.groups[candidate];
  if (!drafts_before_[candidate] || now.roots != then.roots || now.once != then.once ||
      now.again != then.again || !are_same(now.space, then.space)) {
    return std::nullopt;
  }
  for (const auto* list : {&now.roots, &now.once, &now.again}) {
    for (const int id : *list) {
      const auto i = static_cast<std::size_t>(id);
      if (grouping_->stored[i] != before_.stored[i]) return std::nullopt;
      for (const ValueId in : values_[id].in) {
        if (!in.is_none() && is_changed_[in.index()]) return std::nullopt;
      }
    }
  }
  return candidate;
}

void ProgramDrafts::emit(std::size_t group) {
  if (const auto same = unchanged(group)) {
    drafts_[group] = std::move(drafts_before_[*same]);
  } else {
    drafts_[group] = Emitter(values_, *grouping_, static_cast<int>(group)).run();
  }
}

}  // namespace volta::plan
