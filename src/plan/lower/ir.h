// The planner's view of a batch as values: primitives only, with explicit broadcasting, equal
// values merged. Lowering (lowering.h) builds the values from recorded nodes, and passes rewrite
// them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/record/node.h"
#include "kernel/program.h"
#include "plan/lower/batch_view.h"
#include "plan/lower/shape.h"
#include "plan/lower/split.h"
#include "plan/lower/value_id.h"
#include "volta/dtype.h"

namespace volta {
struct DeviceEntry;
}

namespace volta::plan {

class Call;
struct Loop;

enum class ValueKind : std::uint8_t {
  Leaf,    // number: the leaf's number in the view
  Const,   // the literal `constant`, of rank 0
  Arg,     // number: the argument word's number, of rank 0
  Size,    // the integer attrs[0], known from shapes, of rank 0 and i64; a parameter of kernels
  Iota,    // the index along axis attrs[0]
  Philox,  // in: seed, offset; attrs: {multiplier, increment} of the element number
  Scalar,  // op(in...)
  Cast,
  Bounded,  // in: integer; attrs: {high}; number: site
  Reshape,
  Permute,
  Expand,
  Shrink,
  Affine,  // for each dim of the operand: an offset, then a factor for each dim of the view; every
           // index must lie within the operand
  Pad,     // the last of the views
  Reduce,  // over the axes attrs, which are removed from the shape. in: operand, and for segments
           // the number of elements that count, in the shape of the result
  Scan,    // running sum; attrs: {axis, reverse}. in: operand, and the initial values, in the shape
           // without the axis
  Gather,  // in: source [n, rest...], index (Bounded)
  Search,  // in: ascending keys [n], value; attrs: {offset, stride, count}: how many of the count
           // keys at offset + i * stride are smaller than the value (i32)
  Call,    // a library call: `call` tells which; its file in plan/calls packs the attributes. Of a
           // loop, number: which of Graph::loops
  StepResult,  // in: a Call: its result `number`, from 1 on
  Placed,      // in: a value, as it is: in memory, where the Join that takes it wants it
  Join,        // in: two Placed values or Joins, one after the other along attrs[0]: written by
               // those who compute them, no step of its own (joins.cpp)
};

// The values that a value is computed from: six, some of them none, or as many as a loop reads.
class Operands {
 public:
  Operands() = default;
  Operands(std::initializer_list<ValueId> ids) { std::copy(ids.begin(), ids.end(), few_.begin()); }
  explicit Operands(std::vector<ValueId> ids) {
    if (ids.size() > few_.size()) {
      many_ = std::move(ids);
    } else {
      std::copy(ids.begin(), ids.end(), few_.begin());
    }
  }
  ValueId& operator[](std::size_t i) { return begin()[i]; }
  ValueId operator[](std::size_t i) const { return begin()[i]; }
  std::size_t size() const { return many_.empty() ? few_.size() : many_.size(); }
  ValueId* begin() { return many_.empty() ? few_.data() : many_.data(); }
  ValueId* end() { return begin() + size(); }
  const ValueId* begin() const { return many_.empty() ? few_.data() : many_.data(); }
  const ValueId* end() const { return begin() + size(); }

 private:
  std::array<ValueId, 6> few_;
  std::vector<ValueId> many_;
};

struct Value {
  ValueKind kind;
  DType dtype = DType::f32;
  Shape shape = {};
  kernel::ScalarOp op = kernel::ScalarOp::add;
  kernel::ReduceOp reduce = kernel::ReduceOp::Sum;
  Operands in = {};
  std::vector<Extent> attrs = {};
  double constant = 0;  // the number of a Const; the fill of a Pad
  int number = -1;
  const Call* call = nullptr;  // the kind of a Call (plan/calls/call.h)
  // The epoch of its node. Values that a backward pass recomputes are computed right before their
  // first reader.
  std::uint32_t epoch = 0;
  // The phase of an expansion (Lowering::begin_phase); 0 outside of phases.
  std::uint32_t phase = 0;
  bool stored = false;  // must be in memory, whoever uses it
  // For values in the memory of a Join: the Join, the offset, and the strides (place_parts).
  ValueId home = {};
  Extent home_offset = 0;
  std::vector<Extent> home_strides = {};
  const char* label = "";  // the recorded operation that the value came from

  // Whether the value is a step of its own, outside the kernel language.
  bool is_step() const {
    return kind == ValueKind::Call || kind == ValueKind::StepResult || kind == ValueKind::Join;
  }
  // Whether the value is computed by loops over rows, and so is a root wherever it is used.
  bool is_over_rows() const { return kind == ValueKind::Reduce || kind == ValueKind::Scan; }
  // Whether the value is computed element by element from operands of its own shape.
  bool is_pointwise() const { return kind == ValueKind::Scalar || kind == ValueKind::Cast; }
  bool is_view() const { return kind >= ValueKind::Reshape && kind <= ValueKind::Pad; }
};

using Values = PerValue<Value>;

// A view of a batch as values: what lowering makes of it and passes rewrite.
struct Graph {
  const BatchView* view = nullptr;
  const DeviceEntry* device = nullptr;
  Values values = {};
  // For each node of the view, its value; none for an operation with several results.
  std::vector<ValueId> node_values = {};
  std::unordered_map<const graph::Node*, ValueId> leaf_values = {};
  // The loops, which Calls name by number (plan/calls/loop.h).
  std::vector<std::shared_ptr<const Loop>> loops = {};
  // Of the body of a loop: the values that an iteration leaves in memory.
  std::vector<ValueId> results = {};
  // Images that had better lie in memory with their channels last; the layout pass takes them.
  std::vector<ValueId> channels_last = {};

  // The value of a node of the view or of a leaf; none for a number.
  ValueId value_of(const graph::Node& node) const;
  const Loop& loop(int number) const { return *loops[static_cast<std::size_t>(number)]; }
};

}  // namespace volta::plan
