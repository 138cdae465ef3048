// The axes that an operation works along, as written in a call: x.sum(0), x.sum({0, -1}), and
// x.sum({}, true) for all axes.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "volta/shape.h"

namespace volta {

class Axes {
 public:
  Axes() = default;                                                              // every axis
  Axes(std::int64_t axis) : Axes(std::span<const std::int64_t>(&axis, 1), 0) {}  // NOLINT: implicit
  template <std::same_as<bool> Flag>
  Axes(Flag) = delete;  // x.sum(true) would mean axis 1: write x.sum({}, true)
  Axes(std::initializer_list<std::int64_t> axes)
      : Axes(std::span<const std::int64_t>(axes.begin(), axes.size()), 0) {}
  template <class List>
    requires std::convertible_to<const List&, std::span<const std::int64_t>>
  Axes(const List& axes) : Axes(std::span<const std::int64_t>(axes), 0) {}  // NOLINT: implicit

  bool every() const { return every_; }
  // The listed axes; empty if every() is true.
  std::span<const std::int64_t> list() const { return {axes_, count_}; }

 private:
  // A list longer than this is invalid for every shape, so a truncated copy is still refused.
  static constexpr std::size_t kRoom = kMaxRank + 1;
  Axes(std::span<const std::int64_t> axes, int)
      : count_(axes.size() < kRoom ? axes.size() : kRoom), every_(false) {
    for (std::size_t i = 0; i < count_; ++i) axes_[i] = axes[i];
  }

  std::int64_t axes_[kRoom] = {};
  std::size_t count_ = 0;
  bool every_ = true;
};

}  // namespace volta
