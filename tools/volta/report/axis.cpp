#include "report/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "report/markup.h"

namespace volta::report {
namespace {

// Within these bounds differences of values do not overflow and quotients keep their precision.
constexpr double kLargest = 1e300;
constexpr double kSmallest = 1e-300;

// Returns 1, 2 or 5 times a power of ten that gives at most `most` steps in the span.
double round_step(double span, int most) {
  const double least = span / most;
  const double decade = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= least * (1 - 1e-9)) return factor * decade;
  }
  return 10 * decade;
}

bool is_one_value(double low, double high) {
  return high - low <= std::max(kSmallest, 1e-12 * std::max(std::abs(low), std::abs(high)));
}

std::vector<double> multiples(double step, double low, double high) {
  std::vector<double> ticks;
  const double slack = 1e-9;
  const double last = std::floor(high / step + slack);
  for (double k = std::ceil(low / step - slack); k <= last; ++k)
    ticks.push_back(k == 0 ? 0.0 : k * step);
  return ticks;
}

// Rounds down to 1, 2 or 5 times a power of ten.
double round_down(double value) {
  const double decade = std::pow(10.0, std::floor(std::log10(value)));
  for (const double factor : {10.0, 5.0, 2.0}) {
    if (factor * decade <= value * (1 + 1e-9)) return factor * decade;
  }
  return decade;
}
double round_up(double value) {
  const double below = round_down(value);
  if (below >= value * (1 - 1e-9)) return below;
  const double decade = std::pow(10.0, std::floor(std::log10(below) + 1e-9));
  for (const double factor : {2.0, 5.0}) {
    if (factor * decade >= value * (1 - 1e-9)) return factor * decade;
  }
  return 10 * decade;
}

int decimals_of(double step) {
  return std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 12);
}

}  // namespace

double Axis::share(double value) const {
  if (log) return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
  return (value - low) / (high - low);
}

Axis round_axis(double low, double high, int most_ticks) {
  low = std::clamp(low, -kLargest, kLargest);
  high = std::clamp(high, -kLargest, kLargest);
  if (is_one_value(low, high)) {
    const double around = low == 0 ? 1 : std::abs(low) / 10;
    if (low != 0) low -= around;
    high += around;
  }
  const double step = round_step(high - low, most_ticks);
  Axis axis;
  axis.low = std::floor(low / step + 1e-9) * step;
  axis.high = std::ceil(high / step - 1e-9) * step;
  axis.ticks = multiples(step, axis.low, axis.high);
  return axis;
}

Axis tight_axis(double low, double high, int most_ticks, bool whole) {
  low = std::clamp(low, -kLargest, kLargest);
  high = std::clamp(high, -kLargest, kLargest);
  if (is_one_value(low, high)) {
    const double around = std::max(1.0, std::abs(low) * 1e-9);
    low -= around;
    high += around;
  }
  double step = round_step(high - low, most_ticks);
  if (whole) step = std::max(step, 1.0);
  return {.low = low, .high = high, .log = false, .ticks = multiples(step, low, high)};
}

Axis log_axis(double low, double high) {
  Axis axis;
  axis.log = true;
  axis.low = round_down(std::clamp(low, kSmallest, kLargest));
  axis.high = round_up(std::clamp(high, axis.low, kLargest));
  if (axis.high <= axis.low * 1.01) {
    axis.low /= 10;
    axis.high *= 10;
  }
  const int first = static_cast<int>(std::ceil(std::log10(axis.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(axis.high) + 1e-9));
  if (last - first >= 2) {
    const int stride = (last - first) / 6 + 1;
    for (int k = first; k <= last; k += stride) axis.ticks.push_back(std::pow(10.0, k));
    return axis;
  }
  for (int k = first - 1; k <= last; ++k) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10.0, k);
      if (tick >= axis.low * (1 - 1e-9) && tick <= axis.high * (1 + 1e-9))
        axis.ticks.push_back(tick);
    }
  }
  return axis;
}

std::vector<std::string> tick_labels(const Axis& axis, std::string_view unit) {
  std::vector<std::string> labels;
  const std::string sign = unit == "%" ? "%" : "";
  double largest = 0;
  for (const double tick : axis.ticks) largest = std::max(largest, std::abs(tick));
  const bool bytes = unit == "B";
  if (axis.log) {
    for (const double tick : axis.ticks)
      labels.push_back(bytes ? prefixed(tick, "B") : number(tick) + sign);
    return labels;
  }
  // All labels share one prefix; thousands are written out unless they get long.
  constexpr std::array<const char*, 5> kPrefixes = {"", "k", "M", "G", "T"};
  std::size_t prefix = 0;
  double factor = 1;
  while (largest / factor >= (bytes         ? 1e3
                              : prefix == 0 ? 1e4
                                            : 1e3) &&
         prefix + 1 < kPrefixes.size()) {
    factor *= 1000;
    ++prefix;
  }
  const double step = axis.ticks.size() > 1 ? axis.ticks[1] - axis.ticks[0] : largest;
  for (const double tick : axis.ticks) {
    if (tick == 0) {
      labels.emplace_back("0");
      continue;
    }
    const double value = tick / factor;
    std::string text =
        largest / factor >= 1e4 || (largest > 0 && largest < 1e-3)
            ? number(value)
            : fmt::format("{:.{}f}", value, step > 0 ? decimals_of(step / factor) : 0);
    if (prefix == 0 && std::abs(value) >= 1000 && value == std::floor(value))
      text = grouped(static_cast<std::int64_t>(value));
    if (bytes) text += " ";
    text += kPrefixes[prefix];
    text += bytes ? "B" : sign;
    labels.push_back(std::move(text));
  }
  return labels;
}

}  // namespace volta::report
