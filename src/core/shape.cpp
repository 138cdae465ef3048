// Shapes: checking, printing, broadcasting.
#include "volta/shape.h"

#include <algorithm>
#include <ostream>

#include "volta/error.h"

namespace volta {
namespace {

std::string sizes_text(std::span<const std::int64_t> sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(sizes[i]);
  }
  return text += "]";
}

// Finds out what is wrong with the sizes after a check in Shape's constructor failed.
[[noreturn]] void throw_bad_sizes(const char* op, std::span<const std::int64_t> sizes) {
  const std::string where = std::string(op) + ": ";
  if (sizes.size() > kMaxRank)
    throw ShapeError(where + std::to_string(sizes.size()) + " axes, at most " +
                     std::to_string(kMaxRank));
  for (const std::int64_t size : sizes)
    if (size < 0)
      throw ShapeError(where + "size " + std::to_string(size) + " is negative in " +
                       sizes_text(sizes));
  throw ShapeError(where + "the number of elements of " + sizes_text(sizes) + " exceeds 2^63 - 1");
}

}  // namespace

// One loop checks all sizes, because every recorded operation makes shapes.
Shape::Shape(std::span<const std::int64_t> sizes, const char* op) {
  if (sizes.size() > kMaxRank) throw_bad_sizes(op, sizes);
  bool overflows = false, empty = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t size = sizes[i];
    if (size < 0) throw_bad_sizes(op, sizes);
    sizes_[i] = size;
    empty |= size == 0;
    overflows |= __builtin_mul_overflow(numel_, size, &numel_);
  }
  // A zero anywhere makes the product zero, even if the other sizes overflow.
  if (empty) numel_ = 0;
  if (overflows && !empty) throw_bad_sizes(op, sizes);
  rank_ = static_cast<std::int32_t>(sizes.size());
}

Shape Shape::with(int axis, std::int64_t size, const char* op) const {
  std::int64_t changed[kMaxRank];
  std::copy(begin(), end(), changed);
  changed[axis] = size;
  return Shape(std::span<const std::int64_t>(changed, static_cast<std::size_t>(rank_)), op);
}

Shape Shape::inserted(int axis, std::int64_t size, const char* op) const {
  std::int64_t changed[kMaxRank + 1];
  std::copy(begin(), begin() + axis, changed);
  changed[axis] = size;
  std::copy(begin() + axis, end(), changed + axis + 1);
  return Shape(std::span<const std::int64_t>(changed, static_cast<std::size_t>(rank_) + 1), op);
}

Shape Shape::removed(int axis) const {
  std::int64_t changed[kMaxRank];
  std::copy(begin(), begin() + axis, changed);
  std::copy(begin() + axis + 1, end(), changed + axis);
  return Shape(std::span<const std::int64_t>(changed, static_cast<std::size_t>(rank_) - 1));
}

std::string to_string(const Shape& shape) { return sizes_text(shape.sizes()); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::int64_t sizes[kMaxRank];
  for (int i = 1; i <= rank; ++i) {  // from the last axis
    const std::int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const std::int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw ShapeError(std::string(op) + ": shapes " + to_string(a) + " and " + to_string(b) +
                       " do not broadcast");
    sizes[rank - i] = x == 1 ? y : x;
  }
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), op);
}

int normalize_axis(const char* op, std::int64_t axis, const Shape& shape) {
  if (axis < -shape.rank() || axis >= shape.rank())
    throw ShapeError(std::string(op) + ": axis " + std::to_string(axis) + " is out of range for " +
                     to_string(shape));
  return static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
}

}  // namespace volta
