// A plan: the steps for one batch, the places of its results, and the prepared form that a backend
// replays.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/steps.h"
#include "graph/record/recorder.h"
#include "plan/lower/batch_sizes.h"

namespace volta::graph {
class IndexLog;
}

namespace volta::plan {

// Where the value of a held node is stored.
struct Result {
  enum class Kind : std::uint8_t { Output, Leaf };
  std::uint32_t node = 0;  // in the batch
  Kind kind = Kind::Output;
  std::uint32_t number = 0;  // of the output or leaf whose buffer contains it
};

struct Plan {
  PlanSteps steps;
  std::vector<Result> results;
  // For each output, the leaf whose buffer it takes over, or -1 for fresh memory.
  std::vector<int> donor;
  // Word i of the argument block is argument arg_map[i] of the batch.
  std::vector<std::uint32_t> arg_map;
  // For each result, whether it depends on an index that the plan checks.
  std::vector<bool> checked;
  std::unique_ptr<Executable> executable;
  std::shared_ptr<graph::IndexLog> checks;  // null if the batch checks no index
  // For each output of at most kMaxKeptBytes, buffers of earlier runs, which are reused when nobody
  // else holds them.
  std::vector<std::array<graph::Buffer*, 2>> kept;
  // Releases the kept buffers.
  void drop_kept();

  Plan();
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
};
inline constexpr std::uint64_t kMaxKeptBytes = 1024;
// Releases a buffer that a plan keeps.
void release_kept(graph::Buffer* buffer);

struct Account;
class GroupingCache;

// Plans the live nodes of a batch (or only the node `only`) for a device. If donatable[i], leaf i
// has no other user. `account`, if not null, receives the results.
std::unique_ptr<Plan> build_plan(const graph::Batch& batch, const std::vector<bool>& donatable,
                                 const DeviceEntry& entry, GroupingCache& groupings,
                                 const graph::Node* only = nullptr, Account* account = nullptr);

// A plan for all batches of one structure whose sizes follow a pattern and pass the guards.
class OpenPlan {
 public:
  virtual ~OpenPlan() = default;
  // Returns the plan for a batch of these sizes; null if they do not follow the pattern or the
  // guards.
  virtual std::unique_ptr<Plan> plan_for(std::span<const std::int64_t> sizes) = 0;
  // The conditions on sizes, in words.
  virtual std::vector<std::string> guards() const = 0;
  virtual std::size_t bytes() const = 0;
};

// Plans a batch with the open sizes of the pattern.
std::unique_ptr<OpenPlan> build_open_plan(const graph::Batch& batch, SizePattern pattern,
                                          const std::vector<bool>& donatable,
                                          const DeviceEntry& entry, GroupingCache& groupings);

}  // namespace volta::plan
