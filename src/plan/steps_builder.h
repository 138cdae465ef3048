// The second half of planning: steps merged side by side, buffers donated, temporaries laid out.
#pragma once

#include <map>
#include <variant>
#include <vector>

#include "plan/grouping.h"
#include "plan/kernel_builder.h"
#include "plan/plan.h"

namespace volta::plan {

// A step before its buffers have places: a kernel (several segments when merged), or a call of
// something outside the kernel language.
struct StepDraft {
  std::vector<KernelDraft> segments;  // empty: a call
  std::variant<MatmulStep, SortStep, ConvStep, AttentionStep> call;
  std::uint64_t scratch_bytes = 0, scratch_offset = 0;  // memory of the arena for this step alone
  std::vector<int> reads, writes;  // values; of a call as its bind() wants them
  int kind = -1;                   // kernels of one text have one number; -1: not to be merged

  void collect();
};

// Lets outputs take over the buffers of leaves that nobody needs afterwards. A variable's new value
// takes its old one's buffer if it can, so that state stays where it is.
struct Donation {
  const std::vector<bool>& donatable;     // per leaf: nobody else holds it
  const std::vector<bool>& returned;      // per leaf: a result of the plan lies in it
  const std::vector<bool>& is_output;     // per value
  const std::map<int, int>& predecessor;  // output value -> leaf whose variable it was assigned to
  std::vector<int> donor;                 // result, per value: a leaf, or -1
  struct Refusal {
    int leaf = -1;
    const char* why = "";
  };
  std::vector<Refusal> refused;  // result, per value: the leaf it would have liked, and why not
};
void donate(std::vector<StepDraft>& steps, const std::vector<Value>& values, Donation& donation);

// Merges kernels with equal programs that do not need each other into one launch, as long as that
// keeps no more than kMaxExtendedBytes of temporaries longer than they were needed.
std::vector<StepDraft> merge_horizontally(std::vector<StepDraft> steps,
                                          const std::vector<Value>& values,
                                          const std::vector<bool>& is_output);
inline constexpr std::uint64_t kMaxExtendedBytes = std::uint64_t{1} << 20;

// Offsets of temporaries in the arena: per value, -1 for none. Returns the arena's size.
std::uint64_t place_temporaries(std::vector<StepDraft>& steps, const std::vector<Value>& values,
                                const std::vector<bool>& is_output,
                                std::vector<std::int64_t>& offset);

}  // namespace volta::plan
