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
    const bool in_memory = grouping_->in_memory(values_, id);
    bool changed =
        in_memory != before_.in_memory(values_, id) || grouping_->stored[id] != before_.stored[id];
    // Kernels ask for the memory behind reshapes even where a reshape is stored.
    if (!in_memory || values_[id].kind == ValueKind::Reshape) {
      for (const ValueId in : values_[id].in)
        changed = changed || (!in.is_none() && is_changed_[in]);
    }
    is_changed_[id] = changed;
  }
}

// The group of the grouping before that the same kernel computes, if it has been emitted.
GroupId ProgramDrafts::unchanged(GroupId group) const {
  if (drafts_before_.empty()) return GroupId::none;
  const Group& now = grouping_->groups[group];
  const GroupId candidate = before_.group_of[now.roots.front()];
  if (candidate.is_none()) return GroupId::none;
  const Group& then = before_.groups[candidate];
  if (!drafts_before_[candidate] || now.roots != then.roots || now.once != then.once ||
      now.again != then.again || !are_same(now.space, then.space)) {
    return GroupId::none;
  }
  for (const auto* list : {&now.roots, &now.once, &now.again}) {
    for (const ValueId id : *list) {
      if (grouping_->stored[id] != before_.stored[id]) return GroupId::none;
      for (const ValueId in : values_[id].in) {
        if (!in.is_none() && is_changed_[in]) return GroupId::none;
      }
    }
  }
  return candidate;
}

void ProgramDrafts::emit(GroupId group) {
  if (const GroupId same = unchanged(group); !same.is_none()) {
    drafts_[group] = std::move(drafts_before_[same]);
  } else {
    drafts_[group] = Emitter(values_, *grouping_, group).run();
  }
}

}  // namespace volta::plan
