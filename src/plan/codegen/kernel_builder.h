// From a group to a kernel program: index expressions, instructions, axes merged, sizes turned into
// parameters, a schedule chosen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/grouping.h"
#include "plan/index_map.h"
#include "plan/ir.h"

namespace volta::plan {

// A kernel before its buffers have addresses.
struct KernelDraft {
  kernel::Program program;
  std::vector<std::int64_t> ints;
  std::vector<int> slot_values;  // per slot: the value in whose buffer it lies
  std::vector<int> in_place;     // values written into a leaf's buffer: no slot of their own
  std::vector<int> args;         // per argument of the program: its number in the batch
  std::string label;
  std::uint64_t bytes_read = 0, bytes_written = 0, operations = 0;
};

// A reshape inside the group cannot be followed: `value` has to lie in memory.
struct NeedsStore {
  int value;
};

// Throws NeedsStore. wide_device: a GPU.
KernelDraft build_kernel(const std::vector<Value>& values, const Grouping& grouping, int group,
                         bool wide_device);

}  // namespace volta::plan
