// The instructions that compute the roots of a group. Values that lie in memory are loaded; views
// become index expressions; everything else is computed at each index at which it is used.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan/codegen/program_draft.h"
#include "plan/group/grouping.h"

namespace volta::plan {

class Emitter {
 public:
  Emitter(const Values& values, const Grouping& grouping, int group);
  // Throws NeedsStore.
  ProgramDraft run();

 private:
  using Mask = std::vector<LinearBound>;
  // Identifies a computation: a value and its index, as numbers and names of expressions.
  using Key = std::vector<std::int64_t>;
  static void put(Key& key, Extent number);

  // Axes (emitter.cpp).
  void start();
  void split_axis(const AxisSplit& split);
  Linear dim_index(std::size_t dim) const;
  IndexMap over_axes(const IndexMap& over_dims) const;
  IndexMap own_index(ValueId root) const;

  // Roots and memory (emitter.cpp). Functions return the numbers of the emitted instructions.
  void emit_root(ValueId root);
  void emit_once(ValueId root);
  int emit_reduce(ValueId root);
  int emit_scan(ValueId root);
  int emit_kept(ValueId id);
  int emit(ValueId id, const IndexMap& index, const Mask& mask);
  int emit_load(ValueId id, const IndexMap& index, const Mask& mask, double fill);
  int emit_load_at(ValueId base, const Linear& address, const Mask& mask);
  int append(InstrDraft draft);
  int slot_of(ValueId value, bool write);
  static Key memo_key(ValueId id, const IndexMap& index, const Mask& mask);

  // Values computed in place (emit_values.cpp).
  int emit_value(ValueId id, const IndexMap& index, const Mask& mask);
  int compute(const Value& v, const IndexMap& index, const Mask& mask);
  int emit_size(const Value& v);
  int emit_arg(const Value& v);
  int emit_philox(const Value& v, const IndexMap& index);
  int emit_cast(const Value& v, const IndexMap& index, const Mask& mask);
  int emit_bounded(const Value& v, const IndexMap& index, const Mask& mask);
  int emit_scalar(const Value& v, const IndexMap& index, const Mask& mask);
  int emit_gather(const Value& v, const IndexMap& index, const Mask& mask);
  int emit_search(const Value& v, const IndexMap& index, const Mask& mask);
  int emit_view(const Value& v, const IndexMap& index, const Mask& mask);
  int emit_inside(const Mask& bounds);
  int constant(double number, DType dtype);
  int scalar(kernel::ScalarOp op, DType dtype, int a, int b = -1, int c = -1);
  int converted(int instruction, DType dtype);
  int emit_index(const Linear& e, DType dtype);

  const Value& at(ValueId id) const { return values_[id]; }
  std::size_t axes() const { return draft_.extents.size(); }
  const kernel::Instr& instr(int number) const {
    return draft_.instrs[static_cast<std::size_t>(number)].instr;
  }
  // Values without elements are not loaded: if their index is the same at every point, the kernel
  // would load them before any loop.
  bool is_empty(ValueId id) const { return at(id).shape.numel() == 0; }
  // Whether the group computes the value as a root.
  bool is_own(ValueId id) const { return grouping_.group_of[id.index()] == number_; }

  const Values& values_;
  const Grouping& grouping_;
  int number_;
  const Group& group_;
  bool unit_ = false;                        // see ProgramDraft
  std::vector<std::vector<Extent>> pieces_;  // the axes' extents for each dimension of the group
  std::vector<std::size_t> first_axis_;      // for each dimension
  ProgramDraft draft_;
  std::vector<InstrDraft> stores_;
  std::map<Key, int> memo_;
};

}  // namespace volta::plan
