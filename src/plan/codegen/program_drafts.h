// The kernels of groupings that are tried one after the other: what a kernel computes is emitted
// again only if its group has changed.
#pragma once

#include <optional>
#include <vector>

#include "plan/codegen/program_draft.h"
#include "plan/group/grouping.h"

namespace volta::plan {

class ProgramDrafts {
 public:
  explicit ProgramDrafts(const Values& values) : values_(values) {}

  // Starts with a grouping, which outlives its use.
  void start(const Grouping& grouping);
  // Emits the kernel of a group. Throws NeedsStore.
  void emit(GroupId group);
  // The kernel of the group, which has been emitted.
  ProgramDraft& operator[](GroupId group) { return *drafts_[group]; }
  // Keeps the kernels for the next grouping.
  void keep(Grouping grouping);

 private:
  GroupId unchanged(GroupId group) const;
  void find_changes();

  const Values& values_;
  const Grouping* grouping_ = nullptr;
  Table<GroupId, std::optional<ProgramDraft>> drafts_;
  // The grouping before, and its kernels.
  Grouping before_;
  Table<GroupId, std::optional<ProgramDraft>> drafts_before_;
  // Whether computing the value in place reads something that lies elsewhere now.
  PerValue<bool> is_changed_;
};

}  // namespace volta::plan
