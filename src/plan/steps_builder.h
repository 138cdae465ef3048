// The second half of planning: merges steps, donates buffers, and lays out temporaries.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/arena.h"
#include "plan/calls/call.h"
#include "plan/codegen/kernel_builder.h"
#include "plan/group/grouping.h"

namespace volta::plan {

// A step whose buffers have no places yet: a kernel (with several segments after merging), or a
// call.
struct StepDraft {
  std::vector<KernelDraft> segments;  // empty for a call
  CallDraft call;
  std::vector<int> reads, writes;  // values, in the order of bind() for a call

  void collect();
};

// Lets outputs take over the buffers of leaves that nobody needs afterwards. If possible, a
// variable's new value takes over the buffer of the old one, so that state stays at the same
// address.
struct Donation {
  const std::vector<bool>& donatable;  // for each leaf, whether nobody else holds it
  const std::vector<bool>& returned;  // for each leaf, whether a result of the plan is stored in it
  const PerValue<bool>& is_output;
  const std::map<int, int>& predecessor;  // output value -> leaf whose variable it was assigned to
  PerValue<int> donor;                    // result: a leaf, or -1
  struct Refusal {
    int leaf = -1;
    const char* why = "";
  };
  PerValue<Refusal> refused;  // result: the leaf it could not take over, and why
};
void donate(std::vector<StepDraft>& steps, const Values& values, Donation& donation);

// Merges independent kernels with equal programs into one launch, as long as that extends the
// lifetime of at most kMaxExtendedBytes of temporaries.
std::vector<StepDraft> merge_horizontally(std::vector<StepDraft> steps, const Values& values,
                                          const PerValue<bool>& is_output);
// The program text that decides which kernels merge. Vector length and tile of a Map are left out,
// because they work for any size.
std::string merging_text(const kernel::Program& program);
inline constexpr std::uint64_t kMaxExtendedBytes = std::uint64_t{1} << 20;

// The temporaries of the steps, and the number of each: by value, and by step for scratch memory;
// -1 for none. The scratch memory of a loop is as large as its bodies need, which is found out when
// they are made.
struct Temporaries {
  std::vector<Temporary> all;
  PerValue<int> of_value;
  std::vector<int> of_step;
};
Temporaries temporaries_of(const std::vector<StepDraft>& steps, const Values& values,
                           const PerValue<bool>& is_output);

}  // namespace volta::plan
