// The instructions that compute the roots of a group. Values that lie in memory are loaded; views
// become index expressions; everything else is computed at each index at which it is used.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "plan/codegen/places.h"
#include "plan/codegen/program_draft.h"
#include "plan/group/grouping.h"

namespace volta::plan {

class Emitter {
 public:
  Emitter(const Values& values, const Grouping& grouping, GroupId group);
  // Throws NeedsStore.
  ProgramDraft run();

 private:
  // What is emitted once for all that use it: a value computed or loaded at a place. Loads of one
  // value may differ in what they give outside their mask; those of a buffer name its first value
  // and their address.
  enum class Emitted : std::uint8_t { Value, Load, LoadAt };
  struct Key {
    Emitted what;
    int value;
    Place place;
    std::uint64_t fill = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };

  // Axes (emitter.cpp).
  void start();
  void split_axis(const AxisSplit& split);
  Linear dim_index(std::size_t dim) const;
  IndexMap over_axes(const IndexMap& over_dims) const;
  int own_index(ValueId root);

  // Roots and memory (emitter.cpp). Functions return the numbers of the emitted instructions.
  void emit_root(ValueId root);
  void emit_once(ValueId root);
  int emit_reduce(ValueId root);
  int emit_scan(ValueId root);
  int emit_kept(ValueId id);
  int emit(ValueId id, Place place);
  int emit_load(ValueId id, Place place, double fill);
  int emit_load_at(ValueId base, const Linear& address, int mask);
  int append(InstrDraft draft);
  int slot_of(ValueId value, bool write);

  // Values computed in place (emit_values.cpp).
  int emit_value(ValueId id, Place place);
  int compute(const Value& v, Place place);
  int emit_size(const Value& v);
  int emit_arg(const Value& v);
  int emit_philox(const Value& v, Place place);
  int emit_cast(const Value& v, Place place);
  int emit_bounded(const Value& v, Place place);
  int emit_scalar(const Value& v, Place place);
  int emit_gather(const Value& v, Place place);
  int emit_search(const Value& v, Place place);
  int emit_view(const Value& v, Place place);
  int emit_inside(int mask);
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
  bool is_own(ValueId id) const { return grouping_.group_of[id] == number_; }

  const Values& values_;
  const Grouping& grouping_;
  GroupId number_;
  const Group& group_;
  bool unit_ = false;                        // see ProgramDraft
  std::vector<std::vector<Extent>> pieces_;  // the axes' extents for each dimension of the group
  std::vector<std::size_t> first_axis_;      // for each dimension
  ProgramDraft draft_;
  std::vector<InstrDraft> stores_;
  Places places_;
  std::unordered_map<Key, int, KeyHash> memo_;
  std::vector<int> inside_;  // for each mask, the instruction that tests it, or -1
};

}  // namespace volta::plan
