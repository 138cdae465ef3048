// The planner's view of a batch: primitives only, shapes concrete, broadcasting explicit, equal
// values merged. Built by Lowering from recorded nodes; composed operations are expanded here.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/node.h"
#include "graph/segment.h"
#include "kernel/program.h"
#include "plan/plan_steps.h"
#include "volta/dtype.h"
#include "volta/shape.h"

namespace volta {
struct DeviceEntry;
}

namespace volta::plan {

enum class ValueKind : std::uint8_t {
  Leaf,    // number: which leaf of the batch
  Const,   // literal `constant`, rank 0
  Arg,     // number: which argument word, rank 0
  Size,    // the integer `constant`, known from shapes, rank 0, i64: a parameter of kernels
  Iota,    // index along axis attrs[0]
  Philox,  // in: seed, offset; attrs: {multiplier, increment} of the element number
  Scalar,  // op(in...)
  Cast,
  Bounded,  // in: integer; attrs: {high}; number: site
  Reshape,
  Permute,
  Expand,
  Shrink,
  Affine,  // per dim of the operand: offset, then a factor for each dim of the view; every index
           // must lie within the operand
  Pad,     // views
  Reduce,  // over attrs axes, removed from the shape. in: operand, and for segments the number of
           // elements that count, in the shape of the result
  Scan,    // running sum; attrs: {axis, reverse}. in: operand, and where it starts, in the shape
           // without the axis
  Gather,  // in: source [n, rest...], index (Bounded)
  Search,  // in: ascending keys [n], value; attrs: {offset, stride, count}: how many of the count
           // keys at offset + i * stride are smaller than the value (i32)
  Matmul,  // attrs: {transpose_a, transpose_b, tf32, activation}; of halves: f32, or rounded to
           // theirs. in: operands, a bias for every row, the matrix that GeluGradient reads
  Conv,    // in: images and weights, or twice images (ConvStep), and a bias; attrs: see conv_of
  Sort,    // in: keys [rows, n]; attrs: {count, descending}: where the first `count` keys of each
           // row in order stand (i32 or i64), [rows, count]; equal keys keep their order
  Attention,   // in: q, k, v, or for the gradient also the output, its gradient, the logarithms
               // (AttentionStep): the output or q's gradient; attrs: {is gradient, causal, bits of
               // the scale, workspace, results with their heads first: a bit for each,
               // deterministic}
  StepResult,  // in: a Sort: the keys it found; an Attention: its result `number`, from 1 on; a
               // Matmul: what its activation was applied to
  Placed,      // in: a value, as it is: in memory, where the Join that takes it wants it
  Join,        // in: two Placed values or Joins, one after the other along attrs[0]: written by
               // those who compute them, no step of its own (joins.cpp)
};

// Values that a value is computed from, -1 where there is none.
class Operands {
 public:
  Operands() { ids_.fill(-1); }
  Operands(std::initializer_list<int> ids) : Operands() {
    std::copy(ids.begin(), ids.end(), ids_.begin());
  }
  int& operator[](std::size_t i) { return ids_[i]; }
  int operator[](std::size_t i) const { return ids_[i]; }
  std::size_t size() const { return ids_.size(); }
  auto begin() { return ids_.begin(); }
  auto end() { return ids_.end(); }
  auto begin() const { return ids_.begin(); }
  auto end() const { return ids_.end(); }

 private:
  std::array<int, 6> ids_;
};

struct Value {
  ValueKind kind;
  DType dtype = DType::f32;
  Shape shape = {};
  kernel::ScalarOp op = kernel::ScalarOp::add;
  kernel::ReduceOp reduce = kernel::ReduceOp::Sum;
  Operands in = {};
  std::vector<std::int64_t> attrs = {};
  double constant = 0;  // Const, Size; Pad: the fill
  int number = -1;
  std::uint32_t epoch =
      0;  // of its node: what is computed again is so when it is needed, not earlier
  // Of an expansion that computes one after the other (Lowering::begin_stage); 0: of none.
  std::uint32_t stage = 0;
  bool stored = false;  // wanted in memory, whoever uses it
  // Of what lies in the memory of a Join: which, where, and how its axes are walked (place_parts).
  int home = -1;
  std::int64_t home_offset = 0;
  std::vector<std::int64_t> home_strides = {};
  const char* label = "";  // the recorded operation it came from

  // A step of its own, outside the kernel language.
  bool is_step() const {
    return kind == ValueKind::Matmul || kind == ValueKind::Conv || kind == ValueKind::Sort ||
           kind == ValueKind::Attention || kind == ValueKind::StepResult || kind == ValueKind::Join;
  }
  // Computed by going over rows: a root wherever it is used.
  bool is_over_rows() const { return kind == ValueKind::Reduce || kind == ValueKind::Scan; }
  bool is_view() const { return kind >= ValueKind::Reshape && kind <= ValueKind::Pad; }
};

class Lowering;

// A value while formulas are written; operators broadcast.
struct Expr {
  Lowering* lowering = nullptr;
  int id = -1;
  Shape shape() const;
  DType dtype() const;
};
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);

class Lowering {
 public:
  // wide_device: a GPU, where thousands of threads want work.
  Lowering(const graph::Batch& batch, const DeviceEntry& entry);

  std::vector<Value> values;
  // Per node of the batch: its value, or -1 for an operation with several results.
  std::vector<int> node_values;

  // ---- For expansions (graph/expand.cpp): the node being lowered.
  graph::OpId op() const { return node_->op; }
  int inputs() const { return static_cast<int>(node_->inputs_count); }
  Expr in(int i);
  // The input as it lies in memory: halves stay halves.
  Expr stored_in(int i) { return operand_of(i); }
  // The input as it was before it was rounded to a half, where nobody but this node reads it.
  Expr unrounded_in(int i);
  std::span<const std::int64_t> attrs() const { return node_->attr_span(); }
  const Shape& shape() const { return node_->shape; }
  DType dtype() const { return node_->dtype; }
  void out(Expr value) { out(0, value); }
  void out(int number, Expr value);
  int next_site() { return site_++; }
  bool wide_device() const { return wide_device_; }
  // Whether products take values of this dtype as they are: halves, that is.
  bool multiplies_halves(DType dtype) const;
  // What is built from here on is computed by itself, in the memory of the stage before: stages
  // share no values and no kernels. Until end_stages() or the end of the expansion.
  void begin_stage() { stage_ = ++stages_; }
  void end_stages() { stage_ = 0; }

  // ---- Builders. Operands of scalar operations broadcast; results are merged with equal values.
  Expr constant(double number, DType dtype);
  Expr size(std::int64_t number, DType dtype);  // a number that follows from shapes
  Expr iota(const Shape& shape, int axis);      // i64
  Expr philox(Expr seed, Expr offset, const Shape& shape, DType dtype, std::int64_t multiplier = 1,
              std::int64_t increment = 0);
  Expr unary(kernel::ScalarOp op, Expr a);
  Expr binary(kernel::ScalarOp op, Expr a, Expr b);
  Expr where(Expr condition, Expr a, Expr b);
  Expr cast(Expr a, DType dtype);
  Expr bounded(Expr a, std::int64_t high, int site);
  Expr reshape(Expr a, const Shape& shape);
  Expr permute(Expr a, std::span<const std::int64_t> order);
  Expr expand(Expr a, const Shape& shape);  // leading axes may be missing
  Expr shrink(Expr a, std::span<const std::int64_t> start, const Shape& shape);
  // Every step-th element from `start` on; steps may be negative.
  Expr stride(Expr a, std::span<const std::int64_t> start, std::span<const std::int64_t> step,
              const Shape& shape);
  // Windows along an axis, `step` apart: their elements, `spacing` apart, are a new last axis.
  Expr windows(Expr a, std::int64_t axis, std::int64_t size, std::int64_t step,
               std::int64_t spacing = 1);
  // The inverse of a sheared array: element [.., q, .., k] is a[.., q - k, .., k] where there is
  // one, else 0; `axis` grows by the size of the last axis less 1.
  Expr shear(Expr a, std::int64_t axis);
  Expr pad(Expr a, std::span<const std::int64_t> before, const Shape& shape, double fill);
  Expr reduce(kernel::ReduceOp op, Expr a, std::span<const std::int64_t> axes,
              bool keepdim = false);
  // The first bound[...] elements along one axis; `bound` has the result's shape or expands to it.
  // Elements past the bound must be the operation's identity: they may be left out.
  Expr reduce_segments(kernel::ReduceOp op, Expr a, std::int64_t axis, Expr bound);
  // Running sum along an axis, or from its end.
  Expr scan(Expr a, std::int64_t axis, bool reverse);
  Expr gather(Expr source, Expr index);
  // A result without elements for which the indices (Bounded) are looked at all the same.
  Expr checked_nothing(Expr indices);
  Expr search(Expr keys, Expr value, std::int64_t offset, std::int64_t stride, std::int64_t count);
  // Keys [rows, n] to positions [rows, count], a stable sort.
  Expr sort(Expr keys, std::int64_t count, bool descending, DType index);
  Expr sorted_keys(Expr sort);
  Expr matmul(Expr a, Expr b, bool transpose_a, bool transpose_b, bool tf32);
  // The step as a call of the backend's library; an empty Expr where it has none for it. Operands
  // as ConvStep says, weights with their channels second.
  Expr convolution(ConvStep step, Expr a, Expr b);
  // The same for attention, its operands as AttentionStep says: the results in order, none where
  // there is no library for it.
  std::vector<Expr> attention(AttentionStep step, std::span<const Expr> operands);
  // Images [n, channels, height, width] that had better lie in memory with their channels last.
  void prefer_channels_last(Expr images) { channels_last_.push_back(images.id); }
  // Whether they are computed, element by element, from images that lie so.
  bool has_channels_last(Expr images) const;
  // The value, in memory: what it is computed from is needed no longer.
  Expr stored(Expr a);
  // The same, to be a part of one join. No result of the operation.
  Expr placed(Expr a);
  // Placed values, or joins of them, one after the other along an axis: whoever computes a part
  // writes it into the memory of the whole, nothing is copied.
  Expr join(std::span<const Expr> parts, int axis);

 private:
  void lower_node(graph::Node& node);
  void lay_out_images();
  Expr rebuilt(Value v, bool channels_last);
  void turn_attentions(const graph::Batch& batch);
  void fuse_epilogues(const graph::Batch& batch);
  // All values anew, in order: make(number, value with its operands renamed, new numbers so far)
  // gives the one to take its place.
  template <class Make>
  void rebuild(const Make& make);
  void turn_products(const graph::Batch& batch);
  void round_products(const graph::Batch& batch);
  void place_parts(const graph::Batch& batch);
  std::vector<int> count_uses(const graph::Batch& batch) const;
  std::vector<bool> wanted_values(const graph::Batch& batch) const;
  Expr operand_of(int i);
  void count_readers();
  bool is_of_batch(const graph::Node& node) const;
  bool has_one_reader(const graph::Node& node) const;
  int value_of(const graph::Node& node) const;  // of this batch or a leaf; -1: a number
  Expr insert(Value value);
  Expr affine(Expr a, std::vector<std::int64_t> attrs, const Shape& shape);
  Expr in_f32(Expr result, DType dtype);
  Expr split_reduce(kernel::ReduceOp op, Expr a, const std::vector<bool>& reduced);
  Expr split_apart(kernel::ReduceOp op, Expr a, const std::vector<bool>& reduced);
  Expr repeated_number(Expr a);
  Expr reduce_repeated(kernel::ReduceOp op, Expr one, std::int64_t count);
  Expr insert_scan(Expr a, std::int64_t axis, bool reverse, Expr start);
  int half_source(Expr a) const;
  Expr small_matmul(Expr a, Expr b, bool transpose_a, bool transpose_b);
  const Value& at(Expr e) const { return values[static_cast<std::size_t>(e.id)]; }

  bool wide_device_;
  const DeviceEntry* device_;
  const graph::Batch* batch_;
  std::vector<int> readers_;  // per node of the batch: how many of its nodes read it
  graph::Node* node_ = nullptr;
  const Value* origin_ = nullptr;  // what is being rebuilt
  std::unordered_map<std::string, int> merged_;
  std::unordered_map<const graph::Node*, int> leaf_values_;
  std::unordered_map<const graph::Node*, std::vector<int>> results_;  // of operations with several
  int arg_ = 0;                                                       // argument words seen so far
  int site_ = 0;
  int placed_ = 0;  // Placed values made so far
  std::uint32_t stage_ = 0, stages_ = 0;
  std::vector<int> channels_last_;  // what prefer_channels_last was told
  std::vector<int> node_args_;      // argument number per input of the node, -1 where none
};

template <class Make>
void Lowering::rebuild(const Make& make) {
  const std::vector<Value> before = std::exchange(values, {});
  values.reserve(before.size() * 2);
  merged_.clear();
  node_ = nullptr;
  std::vector<int> renamed(before.size(), -1);
  for (std::size_t i = 0; i < before.size(); ++i) {
    origin_ = &before[i];
    Value v = before[i];
    for (int& in : v.in) {
      if (in >= 0) in = renamed[static_cast<std::size_t>(in)];
    }
    renamed[i] = make(i, std::move(v), renamed).id;
  }
  origin_ = nullptr;
  for (int& value : node_values) {
    if (value >= 0) value = renamed[static_cast<std::size_t>(value)];
  }
}

// The step that a Conv is, without buffers and label.
ConvStep conv_of(const std::vector<Value>& values, const Value& v);
// The same of an Attention, also without what it reads.
AttentionStep attention_of(const std::vector<Value>& values, const Value& v);

// Into how many chunks a reduction is cut; 1: not at all.
VOLTA_BACKEND_API std::int64_t reduction_chunks(std::int64_t extent, std::int64_t results,
                                                bool innermost, bool wide_device);
// Whether a kernel that reduces so many rows, and does more with their elements, keeps the device
// busy.
bool keeps_busy(std::int64_t extent, std::int64_t results, bool innermost, bool wide_device);

// Whether k rows of d elements are added into n by comparing every result with every id: work of
// n * k * d in a kernel that fuses, against a sort and a few launches that move what there is.
VOLTA_BACKEND_API bool scatter_compares_all(std::int64_t n, std::int64_t k, std::int64_t d);

}  // namespace volta::plan
