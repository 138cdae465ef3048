// Writing progress: rate and time left from the time since the start.
#include "volta/data/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>

#include <fmt/format.h>

#include "platform/terminal.h"

namespace volta {
namespace {

constexpr int kBarColumns = 24;

std::string duration_text(double seconds) {
  // Years of waiting are told as such, whatever the rate.
  const std::int64_t whole = std::llround(std::min(seconds, 1e9));
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string rate_text(double rate) {
  if (rate >= 10000) return fmt::format("{:.0f}k/s", rate / 1000);
  if (rate >= 100) return fmt::format("{:.0f}/s", rate);
  if (rate >= 1) return fmt::format("{:.1f}/s", rate);
  if (rate > 0) return fmt::format("{:.1f} s each", 1 / rate);
  return "-/s";
}

// At most so many characters; the continuation bytes of UTF-8 take no column.
std::string cut(const std::string& text, int columns) {
  int seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool continues = (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
    if (!continues && seen++ == columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

struct ProgressBar::State {
  using Clock = std::chrono::steady_clock;

  State(std::string what, std::optional<std::int64_t> all, const ProgressOptions& with,
        std::int64_t behind)
      : label(std::move(what)), total(all), options(with), start_count(behind), count(behind) {
    out = options.out != nullptr ? options.out : &std::cerr;
    terminal = options.terminal.value_or(options.out == nullptr && platform::stderr_is_terminal());
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }

  std::string line(double now) const {
    const double rate = now > 0 ? static_cast<double>(count - start_count) / now : 0;
    std::string text = label.empty() ? "" : label + "  ";
    if (total) {
      const double part =
          *total > 0
              ? std::clamp(static_cast<double>(count) / static_cast<double>(*total), 0.0, 1.0)
              : 1;
      if (terminal) {
        const auto full = static_cast<std::size_t>(part * kBarColumns);
        text +=
            fmt::format("[{}{}] ", std::string(full, '='), std::string(kBarColumns - full, ' '));
      }
      text += fmt::format("{:3.0f}%  {}/{}", 100 * part, count, *total);
    } else {
      text += fmt::format("{}", count);
    }
    text += "  " + rate_text(rate);
    const bool over = finished || (total && count >= *total);
    if (over) {
      text += "  in " + duration_text(now);
    } else if (total && rate > 0) {
      text += "  " + duration_text(static_cast<double>(*total - count) / rate) + " left";
    }
    if (!tail.empty()) text += "  " + tail;
    return text;
  }

  // Written now; a bar is drawn over the one before.
  void write() {
    const double now = seconds();
    written_at = now;
    if (!terminal) {
      *out << line(now) << '\n';
    } else {
      const int columns = platform::terminal_columns() - 1;
      *out << "\r\x1b[K" << cut(line(now), columns);
      if (finished) *out << '\n';
    }
    out->flush();
  }

  void write_if_due() {
    const double interval = terminal ? options.terminal_seconds : options.line_seconds;
    if (seconds() - written_at >= interval) write();
  }

  std::string label, tail;
  std::optional<std::int64_t> total;
  ProgressOptions options;
  std::ostream* out = nullptr;
  bool terminal = false;
  std::int64_t start_count, count;
  Clock::time_point start = Clock::now();
  double written_at = 0;
  bool finished = false;
};

ProgressBar::ProgressBar(std::string label, std::optional<std::int64_t> total,
                         ProgressOptions options, std::int64_t done) {
  if (options.enabled) state_ = std::make_unique<State>(std::move(label), total, options, done);
}

ProgressBar::ProgressBar(ProgressBar&& other) noexcept = default;

ProgressBar& ProgressBar::operator=(ProgressBar&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

ProgressBar::~ProgressBar() {
  try {
    finish();
  } catch (...) {  // a stream that throws must not end the program
  }
}

void ProgressBar::advance(std::int64_t steps) {
  if (!state_ || state_->finished) return;
  state_->count += steps;
  state_->write_if_due();
}

void ProgressBar::set_text(std::string_view text) {
  if (state_) state_->tail = text;
}

void ProgressBar::finish() {
  if (!state_ || state_->finished) return;
  state_->finished = true;
  state_->write();
}

}  // namespace volta
