// progress(): reports the progress of a loop, as a bar on a terminal or as a line every few seconds
// elsewhere.
//   for (auto [x, y] : progress(train, "epoch 1")) ...
//   auto bar = progress(train, "epoch 1");
//   for (auto [x, y] : bar) { ... bar.set_text("loss 0.31"); }
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "volta/export.h"

namespace volta {

struct ProgressOptions {
  std::ostream* out = nullptr;                  // null for the standard error stream
  std::optional<bool> terminal = std::nullopt;  // by default detected; false for other streams
  double terminal_seconds = 0.1;                // time between two updates of the bar
  double line_seconds = 10;                     // time between two lines
  bool enabled = true;
};

// Counts steps and writes progress. Usually made by progress().
class VOLTA_API ProgressBar {
 public:
  // `total` is the number of steps, if known; `done` of them are already over.
  ProgressBar(std::string label, std::optional<std::int64_t> total, ProgressOptions options = {},
              std::int64_t done = 0);
  ~ProgressBar();  // writes the final state, also if the loop was left early
  ProgressBar(ProgressBar&& other) noexcept;
  ProgressBar& operator=(ProgressBar&& other) noexcept;

  void advance(std::int64_t steps = 1);
  void set_text(std::string_view text);  // shown after the rest, from the next update on
  void finish();                         // writes the final state; later calls write nothing

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A range with a progress bar that iteration advances. It can be iterated once.
template <class Range>
class Progress {
 public:
  // Range is an lvalue reference or an owned object.
  Progress(Range&& range, std::string label, const ProgressOptions& options)
      : range_(std::forward<Range>(range)), bar_(std::move(label), total(), options, done()) {}

  class Iterator {
   public:
    using Inner = decltype(std::declval<std::remove_reference_t<Range>&>().begin());
    using difference_type = std::ptrdiff_t;
    using value_type = std::remove_cvref_t<decltype(*std::declval<Inner&>())>;

    decltype(auto) operator*() const { return *inner_; }
    Iterator& operator++() {
      // The step is over; waiting for data belongs to the next step.
      progress_->bar_.advance();
      ++inner_;
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.at_end(); }

   private:
    friend class Progress;
    Iterator(Progress* progress, Inner inner) : progress_(progress), inner_(std::move(inner)) {}
    bool at_end() const {
      if (inner_ != progress_->range_.end()) return false;
      progress_->bar_.finish();
      return true;
    }
    Progress* progress_;
    Inner inner_;
  };

  Iterator begin() { return {this, range_.begin()}; }
  std::default_sentinel_t end() const { return {}; }
  void set_text(std::string_view text) { bar_.set_text(text); }

 private:
  std::optional<std::int64_t> total() const {
    if constexpr (requires { range_.size(); }) return static_cast<std::int64_t>(range_.size());
    return std::nullopt;
  }
  // A loader that resumes in mid-epoch reports its position.
  std::int64_t done() const {
    if constexpr (requires { range_.next_position(); }) {
      return static_cast<std::int64_t>(range_.next_position());
    } else {
      return 0;
    }
  }

  Range range_;
  ProgressBar bar_;
};

template <class Range>
Progress<Range> progress(Range&& range, std::string label = "", ProgressOptions options = {}) {
  return {std::forward<Range>(range), std::move(label), options};
}

}  // namespace volta
