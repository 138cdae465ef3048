// What kernels read: walks from a root through the values that are computed in place to the leaves
// and roots in memory.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "plan/group/grouping.h"
#include "plan/group/space.h"

namespace volta::plan {

// One access of a kernel to a leaf or a root.
struct Access {
  ValueId value;   // the leaf or root that is read
  Linear address;  // element number in its buffer, as a function of the point in the space
  bool known;      // whether `address` could be determined
};

// The directions and the bound of the row loops that roots need.
struct Rows {
  bool reduces = false, scans = false, scans_back = false;
  int bound = -1;  // the value that limits the length of reduced rows; -1 if none does
};
Rows rows_of(const Values& values, const std::vector<int>& roots);

// The iteration space of a root: the operand's shape for a reduction, otherwise its own.
Space space_of_root(const Values& values, ValueId id);

// The index of a root's own value at a point of the space.
std::optional<IndexMap> root_index(const Values& values, ValueId id, const Space& space);

class Walker {
 public:
  // Follows the marks of the grouping, which may change between walks.
  Walker(const Values& values, const Grouping& grouping);

  // The accesses that computing a value at every point of a space needs; `instructions` is
  // increased by about the number of instructions.
  std::vector<Access> walk(ValueId id, const Space& space, int& instructions);
  // Whether the group can compute the value too: the value fits the group's space, and it reads the
  // group's roots only at its own points.
  bool fits(ValueId id, GroupId group);

 private:
  struct Visit;
  using IndexId = Id<IndexMap>;
  using VisitId = Id<Visit>;
  struct Visit {
    ValueId id;
    IndexId index;   // none if the index is not known
    VisitId before;  // an earlier visit of the value
  };

  const Value& at(ValueId id) const { return values_[id]; }
  bool is_new(const Visit& next);
  void push(ValueId id, IndexId index) { stack_.push_back({id, index, VisitId::none}); }
  void push(ValueId id, std::optional<IndexMap> index);
  IndexId add(IndexMap index);
  void push_top(const Value& top, ValueId id);
  void push_operands(const Value& v, IndexId index);
  void push_through(const Value& view, ValueId id, IndexId index);
  void read_memory(ValueId id);

  const Values& values_;
  const Grouping& grouping_;
  // While a root is walked. Values that are computed element by element pass the number of their
  // index on to their operands.
  const Space* space_ = nullptr;
  std::vector<Access> found_;
  Table<IndexId, IndexMap> indices_;
  std::size_t known_ = 0;  // how many of them are in use; the others keep their memory
  std::vector<Visit> stack_;
  Table<VisitId, Visit> visits_;
  PerValue<VisitId> last_;  // the last visit of a value; valid if that is of the value
};

}  // namespace volta::plan
