// Builders of values: operands are broadcast, trivial operations are simplified, and equal values
// are merged. Lowering uses them to build values from nodes, passes to rewrite values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/lower/ir.h"

namespace volta::plan {

class ValueBuilder;

// A value in a formula; operators broadcast.
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
  // Appends to `values`, which must outlive the builder.
  ValueBuilder(Values& values, const DeviceEntry& device);

  // The attributes that new values take from the node or value that they are built for. Values
  // without operands have no epoch and no phase.
  struct Origin {
    const char* label = "";
    std::uint32_t epoch = 0, phase = 0;
  };
  void set_origin(const Origin& origin) { origin_ = origin; }

  const Value& at(Expr e) const { return values_[e.id]; }
  const DeviceEntry& device() const { return *device_; }
  // Whether the device is a GPU, which needs thousands of threads.
  bool massively_parallel() const { return massively_parallel_; }

  // Inserts the value, or returns an equal one. Library calls have builders in plan/calls.
  Expr insert(Value value);

  // ---- Numbers and elementwise operations (scalars.cpp).
  Expr constant(double number, DType dtype);
  Expr size(Extent number, DType dtype);    // a number that is known from shapes
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
  // Takes every step-th element from `start` on; steps may be negative.
  Expr stride(Expr a, std::span<const Extent> start, std::span<const Extent> step,
              const Shape& shape);
  // Windows along an axis, `step` apart. Their elements, `spacing` apart, form a new last axis.
  Expr windows(Expr a, std::int64_t axis, Extent size, Extent step, Extent spacing = 1);
  // The inverse of shearing: element [.., q, .., k] is a[.., q - k, .., k] if that exists, else 0.
  // `axis` grows by the size of the last axis minus 1.
  Expr shear(Expr a, std::int64_t axis);
  Expr pad(Expr a, std::span<const Extent> before, const Shape& shape, double fill);

  // ---- Reductions and running sums (reductions.cpp); long ones are split (split.h).
  Expr reduce(kernel::ReduceOp op, Expr a, std::span<const std::int64_t> axes,
              bool keepdim = false);
  // Reduces the first bound[...] elements along one axis; `bound` has the result's shape or expands
  // to it. Elements past the bound must be the operation's identity, because they may be left out.
  Expr reduce_segments(kernel::ReduceOp op, Expr a, std::int64_t axis, Expr bound);
  // The running sum along an axis, or from its end.
  Expr scan(Expr a, std::int64_t axis, bool reverse);

  // ---- Placement of values in memory (memory.cpp).
  // Stores the value in memory, so that its operands are not needed any longer.
  Expr stored(Expr a);
  // Stores the value as a part of one join. It cannot be a result of the operation.
  Expr placed(Expr a);
  // Concatenates placed values, or joins of them, along an axis without a copy: the kernel that
  // computes a part writes it into the memory of the whole.
  Expr join(std::span<const Expr> parts, int axis);

 protected:
  Expr in_f32(Expr result, DType dtype);

  Values& values_;
  const DeviceEntry* device_;
  Origin origin_;

 private:
  Expr affine(Expr a, std::vector<Extent> attrs, const Shape& shape);
  Expr split_reduce(kernel::ReduceOp op, Expr a, const PerAxis<bool>& reduced);
  Expr split_apart(kernel::ReduceOp op, Expr a, const PerAxis<bool>& reduced);
  Expr repeated_number(Expr a);
  Expr reduce_repeated(kernel::ReduceOp op, Expr one, Extent count);
  Expr insert_reduce(kernel::ReduceOp op, Expr a, std::int64_t axis);
  Expr insert_scan(Expr a, std::int64_t axis, bool reverse, Expr start);

  bool massively_parallel_;
  std::unordered_map<std::string, ValueId> merged_;
  int placed_ = 0;  // number of Placed values so far
};

inline Shape Expr::shape() const { return builder->at(*this).shape; }
inline DType Expr::dtype() const { return builder->at(*this).dtype; }

// The value behind views that only repeat elements.
inline ValueId behind_expand(const Values& values, ValueId id) {
  while (values[id].kind == ValueKind::Expand || values[id].kind == ValueKind::Reshape)
    id = values[id].in[0];
  return id;
}

inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

}  // namespace volta::plan
