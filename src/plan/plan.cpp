// Planning a batch as a whole. The plan may have open sizes; plans for sizes are made from it by
// computing its numbers and placing its temporaries in memory.
#include "plan/plan.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <utility>

#include "backend/registry.h"
#include "plan/draft.h"
#include "plan/explain.h"
#include "plan/group/structure.h"

namespace volta::plan {
namespace {

// Per node: whether it depends on an index that the batch checks.
std::vector<bool> checked_nodes(const graph::Batch& batch) {
  std::vector<bool> checked(batch.nodes.size(), false);
  if (batch.sites.empty()) return checked;
  for (std::size_t n = 0; n < batch.nodes.size(); ++n) {
    const std::span<graph::Node* const> inputs = batch.nodes[n]->input_span();
    checked[n] =
        checks_indices(batch.nodes[n]->op) ||
        std::any_of(inputs.begin(), inputs.end(), [&](const graph::Node* input) {
          return input->index < n && batch.nodes[input->index] == input && checked[input->index];
        });
  }
  return checked;
}

// The new values of variables whose old ones are leaves.
std::vector<Successor> successors_of(const graph::Batch& batch) {
  std::vector<Successor> successors;
  for (const graph::JournalEntry& entry : batch.journal) {
    if (entry.leaf != graph::Batch::kNoLeaf)
      successors.push_back({entry.assigned->index, entry.leaf});
  }
  return successors;
}

class OpenPlanOfDraft final : public OpenPlan {
 public:
  OpenPlanOfDraft(SizePattern pattern, Draft draft, OpenSizes::Formulas formulas,
                  const DeviceEntry& entry)
      : pattern_(std::move(pattern)),
        draft_(std::move(draft)),
        formulas_(std::move(formulas)),
        entry_(entry) {}

  std::unique_ptr<Plan> plan_for(std::span<const std::int64_t> sizes) override {
    if (!pattern_.symbols_of(sizes, symbols_) || !formulas_.evaluate(symbols_, values_))
      return nullptr;
    return instantiate(draft_, entry_, true, next_plan_id(),
                       [&](Extent extent) { return formulas_.value(extent, values_); });
  }
  std::vector<std::string> guards() const override { return formulas_.guard_texts(); }
  std::size_t bytes() const override {
    return sizeof *this + pattern_.bytes() + formulas_.bytes() + draft_.bytes();
  }

 private:
  SizePattern pattern_;
  Draft draft_;
  OpenSizes::Formulas formulas_;
  const DeviceEntry& entry_;
  std::vector<std::int64_t> symbols_, values_;  // of the last batch
};

}  // namespace

std::uint32_t next_plan_id() {
  static std::atomic<std::uint32_t> id{1};
  return id.fetch_add(1, std::memory_order_relaxed);
}

std::vector<bool> checked_results(const graph::Batch& batch, const std::vector<Result>& results) {
  const std::vector<bool> checked = checked_nodes(batch);
  std::vector<bool> of_results;
  of_results.reserve(results.size());
  for (const Result& result : results) of_results.push_back(checked[result.node]);
  return of_results;
}

Plan::Plan() = default;

Plan::~Plan() { drop_kept(); }

void Plan::drop_kept() {
  for (auto& pair : kept) {
    for (graph::Buffer*& buffer : pair) {
      if (buffer != nullptr) release_kept(std::exchange(buffer, nullptr));
    }
  }
}

void release_kept(graph::Buffer* buffer) {
  buffer->kept = false;
  buffer->entry->cached.kept_outputs.fetch_sub(buffer->bytes, std::memory_order_relaxed);
  graph::release(buffer);
}

std::unique_ptr<Plan> build_plan(const graph::Batch& batch, const std::vector<bool>& donatable,
                                 const DeviceEntry& entry, GroupingCache& groupings,
                                 const graph::Node* only, Account* account) {
  const std::uint32_t id = next_plan_id();
  const BatchView view(batch);
  const BatchSizes sizes(view);
  std::vector<OutputOrigin> origins;
  Draft draft = draft_plan({view, sizes, false, donatable, successors_of(batch), only}, entry,
                           groupings, id, account != nullptr ? &origins : nullptr);
  draft.checked = checked_results(batch, draft.results);
  if (account != nullptr) account->add_results(batch, draft.results, origins);
  return instantiate(draft, entry, false, id, [](Extent extent) { return extent.hint(); });
}

std::unique_ptr<OpenPlan> build_open_plan(const graph::Batch& batch, SizePattern pattern,
                                          const std::vector<bool>& donatable,
                                          const DeviceEntry& entry, GroupingCache& groupings) {
  OpenSizes open;
  const BatchView view(batch);
  const BatchSizes sizes(view, pattern.extents(sizes_of(batch), open));
  Draft draft = draft_plan({view, sizes, true, donatable, successors_of(batch)}, entry, groupings,
                           next_plan_id());
  draft.checked = checked_results(batch, draft.results);
  std::vector<Extent> wanted;
  draft.visit_extents([&](Extent extent) { wanted.push_back(extent); });
  return std::make_unique<OpenPlanOfDraft>(std::move(pattern), std::move(draft),
                                           open.formulas(wanted), entry);
}

}  // namespace volta::plan
