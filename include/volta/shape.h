// Shape: the sizes of a tensor, at most kMaxRank 64-bit integers stored inline.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>

#include "volta/export.h"

namespace volta {

inline constexpr int kMaxRank = 8;

class VOLTA_API Shape {
 public:
  Shape() = default;  // rank 0, with one element
  Shape(std::initializer_list<std::int64_t> sizes)
      : Shape(std::span(sizes.begin(), sizes.size())) {}
  // Throws ShapeError for negative sizes, more than kMaxRank axes, or a product over 2^63 - 1. The
  // message begins with `op`.
  explicit Shape(std::span<const std::int64_t> sizes, const char* op = "shape");

  int rank() const { return rank_; }
  std::int64_t numel() const { return numel_; }
  std::int64_t operator[](int axis) const { return sizes_[axis]; }
  const std::int64_t* begin() const { return sizes_; }
  const std::int64_t* end() const { return sizes_ + rank_; }
  std::span<const std::int64_t> sizes() const { return {sizes_, static_cast<std::size_t>(rank_)}; }

  // Returns a copy with one axis replaced, inserted or removed. The axis is already normalised.
  Shape with(int axis, std::int64_t size, const char* op = "shape") const;
  Shape inserted(int axis, std::int64_t size, const char* op = "shape") const;
  Shape removed(int axis) const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.sizes_[i] != b.sizes_[i]) return false;
    return true;
  }

 private:
  std::int64_t sizes_[kMaxRank] = {};
  std::int64_t numel_ = 1;
  std::int32_t rank_ = 0;
};

VOLTA_API std::string to_string(const Shape& shape);  // "[4, 2]"
VOLTA_API std::ostream& operator<<(std::ostream& out, const Shape& shape);

// NumPy broadcasting. Throws ShapeError "<op>: shapes [..] and [..] do not broadcast".
VOLTA_API Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

// Maps -rank <= axis < rank to a non-negative axis. Throws ShapeError "<op>: axis 3 is out of range
// for [2, 2]". A scalar has no axis, not even 0.
VOLTA_API int normalize_axis(const char* op, std::int64_t axis, const Shape& shape);

}  // namespace volta
