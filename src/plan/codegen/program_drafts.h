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
  void emit(std::size_t group);
  // The kernel of the group, which has been emitted.
  ProgramDraft& operator[](std::size_t group) { return *drafts_[group]; }
  // Keeps the kernels for the next grouping.
  void keep(Grouping grouping);

 private:
  std::optional<std::size_t> unchanged(std::size_t group) const;
  void find_changes();

  const Values& values_;
  const Grouping* grouping_ = nullptr;
  std::vector<std::optional<ProgramDraft>> drafts_;  // per group
  // The grouping before, and its kernels.
  Grouping before_;
  std::vector<std::optional<ProgramDraft>> drafts_before_;
  // For each value, whether computing it in place reads something that lies elsewhere now.
  std::vector<bool> is_changed_;
};

}  // namespace volta::plan
