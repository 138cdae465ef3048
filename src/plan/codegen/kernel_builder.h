// Builds the kernel program of a group: index expressions, instructions, merged axes, sizes as
// parameters, and a schedule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/codegen/program_draft.h"
#include "plan/group/grouping.h"
#include "plan/lower/index_map.h"
#include "plan/lower/ir.h"

namespace volta::plan {

// A kernel whose buffers have no addresses yet.
struct KernelDraft {
  kernel::Program program;
  std::vector<Extent> ints;
  Extent largest = 0;                // elements of its largest buffer
  std::vector<ValueId> slot_values;  // for each slot, the value in whose buffer it lies
  std::vector<ValueId> in_place;     // values written into a leaf's buffer; they have no slot
  std::vector<int> args;             // for each argument of the program, its number in the batch
  std::string label;
  Extent bytes_read = 0, bytes_written = 0, operations = 0;

  // What the instructions of the program name by numbers.
  const kernel::Axis& axis(int number) const {
    return program.axes[static_cast<std::size_t>(number)];
  }
  kernel::Slot& slot(int number) { return program.slots[static_cast<std::size_t>(number)]; }
  const kernel::Slot& slot(int number) const {
    return program.slots[static_cast<std::size_t>(number)];
  }
  ValueId slot_value(int number) const { return slot_values[static_cast<std::size_t>(number)]; }
};

// Thrown if a reshape inside the group cannot be expressed: `value` must be stored in memory.
struct NeedsStore {
  ValueId value;
};

// Finishes the kernels of a grouping.
class KernelBuilder {
 public:
  // massively_parallel: for a GPU.
  KernelBuilder(const Values& values, const Grouping& grouping, bool massively_parallel);
  KernelDraft build(ProgramDraft draft, GroupId group);

 private:
  std::string label_of(GroupId group);
  void add_members(GroupId group, ValueId root);

  const Values& values_;
  const Grouping& grouping_;
  bool massively_parallel_;
  PerValue<int> visited_;  // the last search that came to the value
  int searches_ = 0;
  std::vector<ValueId> members_, stack_;  // of a search
};

}  // namespace volta::plan
