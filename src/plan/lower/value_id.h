// The numbers of values, and tables indexed by them.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace volta::plan {

// Names a value by its position in Values, or no value. It converts from and to int because parts
// of the planner keep lists of plain numbers.
class ValueId {
 public:
  static const ValueId none;

  constexpr ValueId() = default;
  constexpr ValueId(int number) : number_(number) {}
  constexpr operator int() const { return number_; }
  // Value 0 is a value, so use is_none() to test for one.
  explicit operator bool() const = delete;

  constexpr bool is_none() const { return number_ < 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(number_); }

 private:
  int number_ = -1;
};
inline constexpr ValueId ValueId::none{};

// The numbers from `first` up to, but not including, `last`.
class ValueIds {
 public:
  class Iterator {
   public:
    constexpr Iterator(int number, int step) : number_(number), step_(step) {}
    constexpr ValueId operator*() const { return number_; }
    constexpr Iterator& operator++() {
      number_ += step_;
      return *this;
    }
    friend constexpr bool operator==(const Iterator&, const Iterator&) = default;

   private:
    int number_, step_;
  };

  explicit constexpr ValueIds(std::size_t count) : last_(static_cast<int>(count)) {}
  constexpr Iterator begin() const { return {first_, step_}; }
  constexpr Iterator end() const { return {last_, step_}; }
  // The numbers in reverse order.
  constexpr ValueIds backwards() const {
    ValueIds ids = *this;
    ids.first_ = last_ - step_;
    ids.last_ = first_ - step_;
    ids.step_ = -step_;
    return ids;
  }

 private:
  int first_ = 0, last_ = 0, step_ = 1;
};

// A table with one item per value.
template <class T>
class PerValue {
 public:
  PerValue() = default;
  explicit PerValue(std::size_t count, const T& initial = {}) : items_(count, initial) {}
  template <class Other>
  explicit PerValue(const PerValue<Other>& like, const T& initial = {})
      : items_(like.size(), initial) {}

  decltype(auto) operator[](ValueId id) { return items_[id.index()]; }
  decltype(auto) operator[](ValueId id) const { return items_[id.index()]; }
  std::size_t size() const { return items_.size(); }
  ValueIds ids() const { return ValueIds(items_.size()); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  ValueId add(T item) {
    items_.push_back(std::move(item));
    return static_cast<int>(items_.size()) - 1;
  }
  void reserve(std::size_t count) { items_.reserve(count); }

  // For code that indexes by plain numbers.
  operator const std::vector<T>&() const { return items_; }

 private:
  std::vector<T> items_;
};

}  // namespace volta::plan
