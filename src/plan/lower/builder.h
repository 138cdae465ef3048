// Builders of values: operands broadcast, what is trivial is simplified, and equal values are
// merged. Lowering builds with them from nodes, passes when they rewrite values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/lower/ir.h"

namespace volta::plan {

class ValueBuilder;

// A value while formulas are written; operators broadcast.
struct Expr {
  ValueBuilder* builder = nullptr;
  ValueId id = {};
  bool is_none() const { return id.is_none(); }
  Shape shape() const;
  DType dtype() const;
};
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);

class ValueBuilder {
 public:
  // Adds to `values`, which outlive the builder.
  ValueBuilder(Values& values, const DeviceEntry& device);

  // What new values take over from the node or value that they are built for. Values without
  // operands belong to no epoch and no phase.
  struct Origin {
    const char* label = "";
    std::uint32_t epoch = 0, phase = 0;
  };
  void set_origin(const Origin& origin) { origin_ = origin; }

  const Value& at(Expr e) const { return values_[e.id]; }
  const DeviceEntry& device() const { return *device_; }
  // A GPU, where thousands of threads want work.
  bool massively_parallel() const { return massively_parallel_; }

  // The value, or the one that is equal to it. Library calls have builders in plan/calls.
  Expr insert(Value value);

  // ---- Numbers and elementwise operations (scalars.cpp).
  Expr constant(double number, DType dtype);
  Expr size(Extent number, DType dtype);    // a number that follows from shapes
  Expr iota(const Shape& shape, int axis);  // i64
  Expr philox(Expr seed, Expr offset, const Shape& shape, DType dtype, Extent multiplier = 1,
              Extent increment = 0);
  Expr unary(kernel::ScalarOp op, Expr a);
  Expr binary(kernel::ScalarOp op, Expr a, Expr b);
  Expr where(Expr condition, Expr a, Expr b);
  Expr cast(Expr a, DType dtype);
  Expr bounded(Expr a, Extent high, int site);
  Expr gather(Expr source, Expr index);
  Expr search(Expr keys, Expr value, Extent offset, Extent stride, Extent count);

  // ---- Views (views.cpp).
  Expr reshape(Expr a, const Shape& shape);
  Expr permute(Expr a, std::span<const std::int64_t> order);
  Expr expand(Expr a, const Shape& shape);  // leading axes may be missing
  Expr shrink(Expr a, std::span<const Extent> start, const Shape& shape);
  // Every step-th element from `start` on; steps may be negative.
  Expr stride(Expr a, std::span<const Extent> start, std::span<const Extent> step,
              const Shape& shape);
  // Windows along an axis, `step` apart: their elements, `spacing` apart, are a new last axis.
  Expr windows(Expr a, std::int64_t axis, Extent size, Extent step, Extent spacing = 1);
  // The inverse of a sheared array: element [.., q, .., k] is a[.., q - k, .., k] where there is
  // one, else 0; `axis` grows by the size of the last axis less 1.
  Expr shear(Expr a, std::int64_t axis);
  Expr pad(Expr a, std::span<const Extent> before, const Shape& shape, double fill);

  // ---- Reductions and running sums (reductions.cpp); long ones are split (split.h).
  Expr reduce(kernel::ReduceOp op, Expr a, std::span<const std::int64_t> axes,
              bool keepdim = false);
  // The first bound[...] elements along one axis; `bound` has the result's shape or expands to it.
  // Elements past the bound must be the operation's identity: they may be left out.
  Expr reduce_segments(kernel::ReduceOp op, Expr a, std::int64_t axis, Expr bound);
  // Running sum along an axis, or from its end.
  Expr scan(Expr a, std::int64_t axis, bool reverse);

  // ---- Where values lie (memory.cpp).
  // The value, in memory: what it is computed from is needed no longer.
  Expr stored(Expr a);
  // The same, to be a part of one join. No result of the operation.
  Expr placed(Expr a);
  // Placed values, or joins of them, one after the other along an axis: whoever computes a part
  // writes it into the memory of the whole, nothing is copied.
  Expr join(std::span<const Expr> parts, int axis);

 protected:
  Expr in_f32(Expr result, DType dtype);

  Values& values_;
  const DeviceEntry* device_;
  Origin origin_;

 private:
  Expr affine(Expr a, std::vector<Extent> attrs, const Shape& shape);
  Expr split_reduce(kernel::ReduceOp op, Expr a, const std::vector<bool>& reduced);
  Expr split_apart(kernel::ReduceOp op, Expr a, const std::vector<bool>& reduced);
  Expr repeated_number(Expr a);
  Expr reduce_repeated(kernel::ReduceOp op, Expr one, Extent count);
  Expr insert_reduce(kernel::ReduceOp op, Expr a, std::int64_t axis);
  Expr insert_scan(Expr a, std::int64_t axis, bool reverse, Expr start);

  bool massively_parallel_;
  std::unordered_map<std::string, ValueId> merged_;
  int placed_ = 0;  // Placed values made so far
};

inline Shape Expr::shape() const { return builder->at(*this).shape; }
inline DType Expr::dtype() const { return builder->at(*this).dtype; }

// What views that only repeat elements show.
inline ValueId behind_expand(const Values& values, ValueId id) {
  while (values[id].kind == ValueKind::Expand || values[id].kind == ValueKind::Reshape)
    id = values[id].in[0];
  return id;
}

inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

}  // namespace volta::plan
