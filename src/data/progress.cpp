// Progress bars: the recent rate and the remaining time, and at the end the overall rate.
#include "volta/data/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>

#include <fmt/format.h>

#include "platform/terminal.h"

namespace volta {
namespace {

constexpr int kBarColumns = 24, kLeastBarColumns = 6;
// Time constant in seconds of the moving average of the rate.
constexpr double kRateSeconds = 3;

std::string duration_text(double seconds) {
  // Caps the number at about 30 years, so that it fits an integer whatever the rate is.
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

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Continuation bytes of UTF-8 take no column.
int width_of(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(),
                                        [](char byte) { return !continues_character(byte); }));
}

// Cuts the text to at most `columns` characters.
std::string cut(const std::string& text, int columns) {
  int seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!continues_character(text[i]) && seen++ == columns) return text.substr(0, i);
  }
  return text;
}

}  // namespace

struct ProgressBar::State {
  using Clock = std::chrono::steady_clock;

  State(std::string what, std::optional<std::int64_t> all, const ProgressOptions& with,
        std::int64_t behind)
      : label(std::move(what)),
        total(all),
        options(with),
        start_count(behind),
        count(behind),
        rated_count(behind) {
    out = options.out != nullptr ? options.out : &std::cerr;
    terminal = options.terminal.value_or(options.out == nullptr && platform::stderr_is_terminal());
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }

  bool is_over() const { return finished || (total && count >= *total); }

  // A moving average, so that slow first steps do not count forever.
  void update_rate(double now) {
    const double passed = now - rated_at;
    if (is_over() || passed <= 0) {
      rate = now > 0 ? static_cast<double>(count - start_count) / now : 0;
      return;
    }
    const double lately = static_cast<double>(count - rated_count) / passed;
    const double weight = rated_at > 0 ? 1 - std::exp(-passed / kRateSeconds) : 1;
    rate += weight * (lately - rate);
    rated_at = now;
    rated_count = count;
  }

  // The bar fills the columns that the text leaves free.
  std::string line(double now, int columns) const {
    const std::string head = label.empty() ? "" : label + "  ";
    std::string text;
    double part = 1;
    if (total) {
      if (*total > 0)
        part = std::clamp(static_cast<double>(count) / static_cast<double>(*total), 0.0, 1.0);
      text = fmt::format("{:3.0f}%  {}/{}", 100 * part, count, *total);
    } else {
      text = fmt::format("{}", count);
    }
    text += "  " + rate_text(rate);
    if (is_over()) {
      text += "  in " + duration_text(now);
    } else if (total && rate > 0) {
      text += "  " + duration_text(static_cast<double>(*total - count) / rate) + " left";
    }
    if (!tail.empty()) text += "  " + tail;
    const int left = columns - width_of(head) - width_of(text) - 3;  // "[] "
    if (!terminal || !total || left < kLeastBarColumns) return head + text;
    const auto bar = static_cast<std::size_t>(std::min(left, kBarColumns));
    const auto full = static_cast<std::size_t>(part * static_cast<double>(bar));
    return head + fmt::format("[{}{}] ", std::string(full, '='), std::string(bar - full, ' ')) +
           text;
  }

  // Writes the line now. On a terminal it overwrites the previous one.
  void write() {
    const double now = seconds();
    written_at = now;
    update_rate(now);
    if (!terminal) {
      *out << line(now, 0) << '\n';
    } else {
      const int columns = platform::terminal_columns() - 1;
      *out << "\r\x1b[K" << cut(line(now, columns), columns);
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
  double rate = 0, rated_at = 0;
  std::int64_t rated_count;
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
