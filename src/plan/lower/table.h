// Numbers that name things of one kind, and tables and lists indexed by them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace volta::plan {

// Names a Thing by its position in a table, or no Thing. It converts from and to int because parts
// of the planner keep lists of plain numbers; numbers of different things do not convert to each
// other.
template <class Thing>
class Id {
 public:
  static const Id none;

  constexpr Id() = default;
  constexpr Id(int number) : number_(number) {}
  constexpr operator int() const { return number_; }
  // 0 names the first thing, so use is_none() to test for one.
  explicit operator bool() const = delete;

  constexpr bool is_none() const { return number_ < 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(number_); }

 private:
  int number_ = -1;
};
template <class Thing>
inline constexpr Id<Thing> Id<Thing>::none{};

// The numbers from `first` up to, but not including, `last`.
template <class Number>
class Ids {
 public:
  class Iterator {
   public:
    constexpr Iterator(int number, int step) : number_(number), step_(step) {}
    constexpr Number operator*() const { return number_; }
    constexpr Iterator& operator++() {
      number_ += step_;
      return *this;
    }
    friend constexpr bool operator==(const Iterator&, const Iterator&) = default;

   private:
    int number_, step_;
  };

  explicit constexpr Ids(std::size_t count) : last_(static_cast<int>(count)) {}
  constexpr Iterator begin() const { return {first_, step_}; }
  constexpr Iterator end() const { return {last_, step_}; }
  // The numbers in reverse order.
  constexpr Ids backwards() const {
    Ids ids = *this;
    ids.first_ = last_ - step_;
    ids.last_ = first_ - step_;
    ids.step_ = -step_;
    return ids;
  }

 private:
  int first_ = 0, last_ = 0, step_ = 1;
};

// A table with one item for each number.
template <class Number, class T>
class Table {
 public:
  Table() = default;
  explicit Table(std::size_t count, const T& initial = T()) : items_(count, initial) {}
  Table(std::initializer_list<T> items) : items_(items) {}
  template <std::input_iterator Iterator>
  Table(Iterator first, Iterator last) : items_(first, last) {}
  template <class Other>
  explicit Table(const Table<Number, Other>& like, const T& initial = T())
      : items_(like.size(), initial) {}

  decltype(auto) operator[](Number number) { return items_[number.index()]; }
  decltype(auto) operator[](Number number) const { return items_[number.index()]; }
  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  Ids<Number> ids() const { return Ids<Number>(items_.size()); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  friend bool operator==(const Table&, const Table&) = default;

  Number add(T item) {
    items_.push_back(std::move(item));
    return static_cast<int>(items_.size()) - 1;
  }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    return items_.emplace_back(std::forward<Args>(args)...);
  }
  void assign(std::size_t count, const T& item) { items_.assign(count, item); }
  void resize(std::size_t count) { items_.resize(count); }
  void clear() { items_.clear(); }
  void reserve(std::size_t count) { items_.reserve(count); }

  // For code that indexes by plain numbers.
  const std::vector<T>& items() const { return items_; }
  operator const std::vector<T>&() const { return items_; }

 private:
  std::vector<T> items_;
};

// A list of items for each number, all of them in one array.
template <class Number, class T>
class Lists {
 public:
  Lists() = default;
  // The items of a number keep their order.
  Lists(std::size_t count, const std::vector<std::pair<Number, T>>& pairs) : first_(count + 1, 0) {
    for (const auto& [number, item] : pairs) ++first_[number.index() + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    items_.resize(pairs.size());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (const auto& [number, item] : pairs) items_[next[number.index()]++] = item;
  }
  std::span<const T> operator[](Number number) const {
    const std::size_t i = number.index();
    return {items_.data() + first_[i], first_[i + 1] - first_[i]};
  }
  // The items of all lists.
  std::size_t item_count() const { return items_.size(); }

 private:
  std::vector<std::size_t> first_;
  std::vector<T> items_;
};

}  // namespace volta::plan
