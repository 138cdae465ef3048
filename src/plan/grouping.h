// Which values share a kernel. A group has one iteration space; it computes roots: reductions, and
// values that must lie in memory. Everything else is computed where it is used.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/index_map.h"
#include "plan/ir.h"

namespace volta::plan {

// An operand of a matrix product as a library sees it: a strided matrix (or batch of them) in a
// buffer.
struct MatrixView {
  int base = -1;  // the value whose buffer it is
  bool transposed = false;
  std::int64_t leading = 0;  // row stride
  std::int64_t batch_stride = 0;
  std::int64_t offset = 0;  // elements
};

struct Group {
  bool is_matmul = false;
  std::vector<std::int64_t> dims;  // of the iteration space, without those of size 1
  std::vector<bool> reduced;       // per dim
  std::vector<int> roots;          // in order of value number
  std::vector<int> once;           // one-element values stored along the way
  bool has_reduce() const;
};

struct Grouping {
  std::vector<Group> groups;  // in execution order
  std::vector<int> group_of;  // per value: the group whose root it is, or -1
  std::vector<bool> stored;   // per value: lies in a buffer of its own (leaves not counted)
  std::vector<bool> needed;   // per value: some output depends on it
  std::vector<bool>
      point;  // per value: one element, a few operations from leaves: computed in place

  // Whether a kernel reads the value from a buffer (when it does not compute it itself as a root).
  bool in_memory(const std::vector<Value>& values, int id) const;
};

// The value in whose buffer a value lies if only reshapes stand between them.
int reshape_base(const std::vector<Value>& values, int id);

class Grouper {
 public:
  // `outputs`: values somebody holds. `must_store`: values found not to be computable in place.
  Grouper(const std::vector<Value>& values, const std::vector<int>& outputs,
          const std::vector<bool>& must_store);
  Grouping run();

  static MatrixView matrix_view(const std::vector<Value>& values, const std::vector<bool>& stored,
                                int id);

 private:
  // How one root reaches another: at the same point of the iteration space, or elsewhere.
  struct Dependency {
    int root;
    IndexMap index;
    bool known;  // whether `index` could be followed
  };
  void mark_needed();
  void mark_stored();
  void mark_points();
  void limit_size();
  void share_or_recompute();
  void form_groups();
  void merge_points();
  void order_groups();

  bool is_root(int id) const;
  std::vector<Dependency> dependencies(int root, std::vector<int>& loads, int& instructions) const;
  bool can_join(int root, const std::vector<Dependency>& deps, int group) const;
  bool reaches(int from, int to) const;
  const Value& at(int id) const { return values_[static_cast<std::size_t>(id)]; }

  const std::vector<Value>& values_;
  const std::vector<int>& outputs_;
  const std::vector<bool>& must_store_;
  Grouping grouping_;
  std::vector<std::vector<int>> edges_;  // per group: groups it needs
  std::vector<std::vector<int>> loads_;  // per group: buffers its roots read
  std::vector<int> sizes_;               // per group: about how many instructions
};

// Whether a value that `users` kernels would compute for themselves is better computed once and
// stored: by bytes of memory traffic.
VOLTA_BACKEND_API bool better_stored(std::int64_t value_bytes, std::int64_t operand_bytes,
                                     int users);

}  // namespace volta::plan
