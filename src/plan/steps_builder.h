// The second half of planning: steps merged side by side, buffers donated, temporaries laid out.
#pragma once

#include <map>
#include <vector>

#include "plan/arena.h"
#include "plan/calls/call.h"
#include "plan/codegen/kernel_builder.h"
#include "plan/group/grouping.h"

namespace volta::plan {

// A step before its buffers have places: a kernel (several segments when merged), or a call of
// something outside the kernel language.
struct StepDraft {
  std::vector<KernelDraft> segments;  // empty: a call
  CallDraft call;
  std::vector<int> reads, writes;  // values; of a call as its bind() wants them
  int kind = -1;                   // kernels of one text have one number; -1: not to be merged

  void collect();
};

// Lets outputs take over the buffers of leaves that nobody needs afterwards. A variable's new value
// takes its old one's buffer if it can, so that state stays where it is.
struct Donation {
  const std::vector<bool>& donatable;  // per leaf: nobody else holds it
  const std::vector<bool>& returned;   // per leaf: a result of the plan lies in it
  const PerValue<bool>& is_output;
  const std::map<int, int>& predecessor;  // output value -> leaf whose variable it was assigned to
  PerValue<int> donor;                    // result: a leaf, or -1
  struct Refusal {
    int leaf = -1;
    const char* why = "";
  };
  PerValue<Refusal> refused;  // result: the leaf that a value would have liked, and why not
};
void donate(std::vector<StepDraft>& steps, const Values& values, Donation& donation);

// Merges kernels with equal programs that do not need each other into one launch, as long as that
// keeps no more than kMaxExtendedBytes of temporaries longer than they were needed.
std::vector<StepDraft> merge_horizontally(std::vector<StepDraft> steps, const Values& values,
                                          const PerValue<bool>& is_output);
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
