// Indexing: x[i], x.slice(...), x.index({...}) read a part of a tensor, and assigned to they write
// it. Entries are numbers, ranges, `ellipsis`, `newaxis`, integer tensors and bool tensors, with
// PyTorch's rules; numbers, ranges and integer tensors may count from the end.
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
#include "volta/place.h"
#include "volta/tensor.h"

namespace volta {

namespace graph {
struct Target;
struct SelectionAccess;
}  // namespace graph

// start:stop:step as Python means it: bounds outside the axis are cut off, the step may be
// negative.
struct Slice {
  std::optional<std::int64_t> start = std::nullopt;
  std::optional<std::int64_t> stop = std::nullopt;
  std::optional<std::int64_t> step = std::nullopt;
};

struct Ellipsis {};  // as many whole axes as are left
struct NewAxis {};   // an axis of size 1 that the source does not have
inline constexpr Ellipsis ellipsis;
inline constexpr NewAxis newaxis;

// One entry of an index.
class Index {
 public:
  using Entry = std::variant<std::int64_t, Slice, Ellipsis, NewAxis, Tensor>;

  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Index(T number, Place place = Place::here())  // NOLINT: implicit on purpose, as all of them
      : entry_(static_cast<std::int64_t>(number)), place_(place) {}
  Index(Slice range, Place place = Place::here()) : entry_(range), place_(place) {}    // NOLINT
  Index(Ellipsis rest, Place place = Place::here()) : entry_(rest), place_(place) {}   // NOLINT
  Index(NewAxis axis, Place place = Place::here()) : entry_(axis), place_(place) {}    // NOLINT
  Index(const Tensor& at, Place place = Place::here()) : entry_(at), place_(place) {}  // NOLINT

  const Entry& entry() const { return entry_; }
  Place place() const { return place_; }

 private:
  Entry entry_;
  Place place_;
};

// What indexing gives: a tensor of its own, recorded when somebody first asks for its value, that
// has the source's value of the moment it was selected. Assigned to as it stands (`x[i] = v`), it
// writes into the variable it was selected from: every handle of that sees the new value, and
// gradients go to v where it was written, to the old value elsewhere. A name given to it is a
// tensor like others: assigning to the name rebinds it.
//
// v is a tensor that broadcasts to the selection, or a number, converted to the dtype written to.
// Where integer tensors name an element more than once, the last one is written, on every device.
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
  Selection fill_(Scalar value, Place place = Place::here()) &&;
  Selection zero_(Place place = Place::here()) && { return std::move(*this).fill_(0, place); }
  Selection copy_(const Tensor& source, Place place = Place::here()) &&;
  using Tensor::operator+=;
  using Tensor::operator-=;
  using Tensor::operator*=;
  using Tensor::operator/=;
  using Tensor::copy_;
  using Tensor::fill_;
  using Tensor::zero_;

  // ---- A part of the part: `x[i][j] = v` writes into x.
  Selection operator[](const Index& index) const& { return Tensor::operator[](index); }
  Selection operator[](const Index& index) &&;
  Selection index(std::initializer_list<Index> entries, Place place = Place::here()) const& {
    return Tensor::index(entries, place);
  }
  Selection index(std::initializer_list<Index> entries, Place place = Place::here()) &&;
  Selection index(std::span<const Index> entries, Place place = Place::here()) const& {
    return Tensor::index(entries, place);
  }
  Selection index(std::span<const Index> entries, Place place = Place::here()) &&;
  Selection slice(std::int64_t axis, std::optional<std::int64_t> start = {},
                  std::optional<std::int64_t> stop = {}, std::int64_t step = 1,
                  Place place = Place::here()) const& {
    return Tensor::slice(axis, start, stop, step, place);
  }
  Selection slice(std::int64_t axis, std::optional<std::int64_t> start = {},
                  std::optional<std::int64_t> stop = {}, std::int64_t step = 1,
                  Place place = Place::here()) &&;

 private:
  friend struct graph::SelectionAccess;
  Selection(Tensor value, std::shared_ptr<const graph::Target> target) noexcept;

  std::shared_ptr<const graph::Target> target_;  // where it writes to
};

}  // namespace volta
