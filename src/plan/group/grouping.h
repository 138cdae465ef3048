// Which values share a kernel. A group has one iteration space; it computes roots: reductions, and
// values that must lie in memory. Everything else is computed where it is used.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan/ir.h"
#include "plan/space.h"

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

// Any array in a buffer: element strides per axis.
struct StridedView {
  int base = -1;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
};

struct Group {
  bool is_call = false;  // a step outside the kernel language
  Space space;
  std::vector<int> roots;  // in order of value number
  std::vector<int> once;   // one-element values stored along the way
  std::vector<int> again;  // values of other groups' memory that it computes for itself
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

// An operand of a product as a matrix in memory; base -1 if it is none.
MatrixView matrix_view(const std::vector<Value>& values, const std::vector<bool>& stored, int id);

// A value as a strided array in memory, its last axis contiguous; base -1 if it is none.
StridedView strided_view(const std::vector<Value>& values, const std::vector<bool>& stored, int id);

class Grouper {
 public:
  // `outputs`: values somebody holds. `must_store`: values found not to be computable in place.
  Grouper(const std::vector<Value>& values, const std::vector<int>& outputs,
          const std::vector<bool>& must_store, bool wide_device);
  Grouping run();

 private:
  void mark_needed();
  void mark_stored();
  void mark_finished();
  bool finishes_reduction(int id, std::int64_t readers) const;
  void mark_points();
  void limit_size();
  bool store_more(std::vector<bool>& stored) const;
  std::map<int, std::vector<int>> computed_in_place() const;
  std::vector<int> sources_of(const std::vector<int>& from, int skipped, int group) const;
  std::int64_t bytes_read_of(int source, int id) const;
  std::int64_t bytes_read_for(int id, int group) const;
  int producer_of(int id, const std::vector<int>& users, const std::vector<int>& sources) const;
  std::vector<int> computable_in(int group, int id, std::vector<int>& sources) const;
  void compute_again(const std::vector<bool>& asked);
  void merge_points();
  void order_groups();

  const Value& at(int id) const { return values_[static_cast<std::size_t>(id)]; }

  const std::vector<Value>& values_;
  const std::vector<int>& outputs_;
  const std::vector<bool>& must_store_;
  bool wide_device_;
  Grouping grouping_;
  std::vector<std::vector<int>> needs_;  // per group: groups it needs
  std::vector<std::vector<int>> loads_;  // per group: buffers its roots read
};

// A value that kernels would each compute for themselves.
struct Sharing {
  std::int64_t value_bytes = 0;
  // Per kernel that uses it: what it would read for this value alone.
  std::vector<std::int64_t> operand_bytes = {};
  // What an earlier kernel would read in addition if it stored the value; -1: there is none, one
  // of those above has to store it.
  std::int64_t producer_bytes = -1;
  std::int64_t spared_bytes = 0;  // stores of operands that nobody needs then
};

// Recompute or store: the bytes of memory traffic that storing the value saves. Nothing or less:
// it is computed wherever it is used.
VOLTA_BACKEND_API std::int64_t storing_saves(const Sharing& sharing);

}  // namespace volta::plan
