// Indexing: x[i], x.slice(...) and x.index({...}) read a part of a tensor, and write it when they
// are assigned to. Indices are numbers, ranges, `ellipsis`, `newaxis`, integer tensors and bool
// tensors, with PyTorch's rules; numbers, ranges and integer tensors may count from the end.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "volta/export.h"
#include "volta/source_location.h"
#include "volta/tensor.h"

namespace volta {

namespace graph {
struct Target;
struct SelectionAccess;
}  // namespace graph

// start:stop:step as in Python: bounds outside of the axis are clamped, and the step may be
// negative.
struct Slice {
  std::optional<std::int64_t> start = std::nullopt;
  std::optional<std::int64_t> stop = std::nullopt;
  std::optional<std::int64_t> step = std::nullopt;
};

struct Ellipsis {};  // stands for all remaining axes
struct NewAxis {};   // inserts an axis of size 1
inline constexpr Ellipsis ellipsis;
inline constexpr NewAxis newaxis;

// One entry of an index.
class Index {
 public:
  using Entry = std::variant<std::int64_t, Slice, Ellipsis, NewAxis, Tensor>;

  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Index(T number, SourceLocation place =
                      SourceLocation::here())  // NOLINT: implicit on purpose, as all of them
      : entry_(static_cast<std::int64_t>(number)), place_(place) {}
  Index(Slice range, SourceLocation place = SourceLocation::here())
      : entry_(range), place_(place) {}  // NOLINT
  Index(Ellipsis rest, SourceLocation place = SourceLocation::here())
      : entry_(rest), place_(place) {}  // NOLINT
  Index(NewAxis axis, SourceLocation place = SourceLocation::here())
      : entry_(axis), place_(place) {}  // NOLINT
  Index(const Tensor& at, SourceLocation place = SourceLocation::here())
      : entry_(at), place_(place) {}  // NOLINT

  const Entry& entry() const { return entry_; }
  SourceLocation place() const { return place_; }

 private:
  Entry entry_;
  SourceLocation place_;
};

// The result of indexing: a tensor with the value that the source had when it was selected,
// recorded on first use. A direct assignment (`x[i] = v`) writes into the variable that it was
// selected from: all handles of that variable see the new value, and gradients flow to v where it
// was written and to the old value elsewhere. A selection stored under a name is an ordinary
// tensor: assigning to the name rebinds it.
//
// v is a tensor that broadcasts to the selection, or a number; it is converted to the dtype of the
// source. If integer tensors name an element more than once, the last value is written, on every
// device.
class VOLTA_API Selection : public Tensor {
 public:
  Selection(const Selection& other) noexcept;
  Selection(Selection&& other) noexcept;
  ~Selection();

  Selection& operator=(const Selection& other) & noexcept;
  Selection& operator=(Selection&& other) & noexcept;
  Selection& operator=(const Tensor& other) & noexcept;
  Selection& operator=(Tensor&& other) & noexcept;

  // ---- Writing into the source.
  Selection operator=(const Operand& value) &&;
  Selection operator=(const Selection& value) &&;
  Selection operator=(Selection&& value) &&;  // NOLINT: no move, it may throw
  Selection operator+=(const Operand& value) &&;
  Selection operator-=(const Operand& value) &&;
  Selection operator*=(const Operand& value) &&;
  Selection operator/=(const Operand& value) &&;
  Selection fill_(Scalar value, SourceLocation place = SourceLocation::here()) &&;
  Selection zero_(SourceLocation place = SourceLocation::here()) && {
    return std::move(*this).fill_(0, place);
  }
  Selection copy_(const Tensor& source, SourceLocation place = SourceLocation::here()) &&;
  using Tensor::operator+=;
  using Tensor::operator-=;
  using Tensor::operator*=;
  using Tensor::operator/=;
  using Tensor::copy_;
  using Tensor::fill_;
  using Tensor::zero_;

  // ---- A selection of a selection: `x[i][j] = v` writes into x.
  Selection operator[](const Index& index) const& { return Tensor::operator[](index); }
  Selection operator[](const Index& index) &&;
  Selection index(std::initializer_list<Index> entries,
                  SourceLocation place = SourceLocation::here()) const& {
    return Tensor::index(entries, place);
  }
  Selection index(std::initializer_list<Index> entries,
                  SourceLocation place = SourceLocation::here()) &&;
  Selection index(std::span<const Index> entries,
                  SourceLocation place = SourceLocation::here()) const& {
    return Tensor::index(entries, place);
  }
  Selection index(std::span<const Index> entries, SourceLocation place = SourceLocation::here()) &&;
  Selection slice(std::int64_t axis, std::optional<std::int64_t> start = {},
                  std::optional<std::int64_t> stop = {}, std::int64_t step = 1,
                  SourceLocation place = SourceLocation::here()) const& {
    return Tensor::slice(axis, start, stop, step, place);
  }
  Selection slice(std::int64_t axis, std::optional<std::int64_t> start = {},
                  std::optional<std::int64_t> stop = {}, std::int64_t step = 1,
                  SourceLocation place = SourceLocation::here()) &&;

 private:
  friend struct graph::SelectionAccess;
  Selection(Tensor value, std::shared_ptr<const graph::Target> target) noexcept;

  std::shared_ptr<const graph::Target> target_;  // the variable and part that assignments write to
};

}  // namespace volta
