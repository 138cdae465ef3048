// Decides which values share a kernel. A group has one iteration space and computes roots:
// reductions, and values that must be in memory. All other values are computed where they are used.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/group/space.h"
#include "plan/lower/ir.h"

namespace volta::plan {

struct Group {
  bool is_call = false;  // a step outside the kernel language
  Space space;
  std::vector<int> roots;  // in order of value number
  std::vector<int> once;   // one-element values that the kernel stores besides its roots
  std::vector<int> again;  // values that it recomputes instead of reading them from memory
};

// Names a group by its position in a grouping.
using GroupId = Id<Group>;

struct Grouping {
  Table<GroupId, Group> groups;  // in execution order
  PerValue<GroupId> group_of;    // the group whose root the value is
  PerValue<bool> stored;         // whether it has a buffer of its own (leaves not counted)
  PerValue<bool> needed;         // whether some output depends on it
  // Whether it is a single element, a few operations away from leaves, that is computed in place.
  PerValue<bool> point;

  // Whether kernels that do not compute the value as a root read it from a buffer.
  bool in_memory(const Values& values, ValueId id) const;
};

struct Walked;

class Grouper {
 public:
  // `outputs` are values that the program holds; `must_store` marks values that cannot be computed
  // in place.
  Grouper(const Values& values, const std::vector<int>& outputs, const PerValue<bool>& must_store,
          bool massively_parallel);
  ~Grouper();
  // May be called again after more values were marked. It then starts with the values that the run
  // before stored because recomputing them costs more.
  Grouping run();

 private:
  void mark_needed();
  void mark_stored();
  void mark_finished();
  bool finishes_reduction(ValueId id, std::int64_t readers) const;
  void mark_points();
  void limit_size();
  void forget_changed_walks();
  bool store_more(PerValue<bool>& stored) const;
  std::vector<int> computable_in(GroupId group, ValueId id, std::vector<int>& sources) const;
  void compute_again(const PerValue<bool>& asked);
  void merge_points();
  void order_groups();

  const Value& at(ValueId id) const { return values_[id]; }

  const Values& values_;
  const std::vector<int>& outputs_;
  const PerValue<bool>& must_store_;
  bool massively_parallel_;
  PerValue<bool> worth_storing_;
  Grouping grouping_;
  PerValue<Walked> walked_;  // what roots read
  // Whether the value was stored and whether it was in memory when roots were walked last.
  PerValue<std::uint8_t> marks_;
  Table<GroupId, std::vector<GroupId>> needs_;  // the groups that each group needs
  Table<GroupId, std::vector<int>> loads_;      // the buffers that its roots read
};

// The memory traffic of a value that several kernels would each compute for themselves.
struct Sharing {
  std::int64_t value_bytes = 0;
  // For each kernel that uses it, the bytes that the kernel reads for this value alone.
  std::vector<std::int64_t> operand_bytes = {};
  // The additional bytes that an earlier kernel would read if it stored the value; -1 if there is
  // no such kernel and one of the users has to store it.
  std::int64_t producer_bytes = -1;
  std::int64_t spared_bytes = 0;  // stores of operands that would no longer be needed
};

// Returns the bytes of memory traffic that storing the value saves. If they are not positive, the
// value is recomputed wherever it is used.
VOLTA_BACKEND_API std::int64_t storing_saves(const Sharing& sharing);

}  // namespace volta::plan
