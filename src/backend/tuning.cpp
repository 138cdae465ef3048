// The value of VOLTA_TUNE, and the seconds spent on timing.
#include "backend/tuning.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <mutex>
#include <optional>
#include <string>

#include "platform/env.h"
#include "platform/fork.h"
#include "volta/error.h"
#include "volta/tuning.h"

namespace volta {
namespace {

constexpr double kUsualSeconds = 2;

struct Settings {
  std::optional<Tuning> asked;
  double bound = kUsualSeconds, spent = 0;
};

Settings from_environment() {
  const std::optional<std::string> value = platform::environment("VOLTA_TUNE");
  if (!value) return {};
  if (*value == "off") return {.asked = Tuning::Off, .bound = 0};
  if (*value == "read") return {.asked = Tuning::Read, .bound = 0};
  double seconds = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), seconds);
  if (error != std::errc() || end != value->data() + value->size() || !(seconds >= 0) ||
      std::isinf(seconds)) {
    throw ArgumentError(
        fmt::format("VOLTA_TUNE={}: expected off, read or a number of seconds", *value));
  }
  return {.asked = Tuning::Time, .bound = seconds};
}

platform::ForkMutex mutex;

Settings& settings() {
  static Settings settings = from_environment();
  return settings;
}

}  // namespace

Tuning schedule_tuning(bool is_gpu) {
  const std::lock_guard lock(mutex);
  return settings().asked.value_or(is_gpu ? Tuning::Time : Tuning::Off);
}

Tuning library_tuning() {
  const std::lock_guard lock(mutex);
  return settings().asked.value_or(Tuning::Time);
}

double tuning_seconds_left() {
  const std::lock_guard lock(mutex);
  return settings().bound - settings().spent;
}

void spend_tuning_seconds(double seconds) {
  const std::lock_guard lock(mutex);
  settings().spent += seconds;
}

void set_tuning_seconds(double seconds) {
  if (!(seconds >= 0) || std::isinf(seconds))
    throw ArgumentError(
        fmt::format("set_tuning_seconds: {} is no number of seconds: give 0 or more", seconds));
  const std::lock_guard lock(mutex);
  Settings& all = settings();
  all.asked = Tuning::Time;
  all.bound = all.spent + seconds;
}

double tuning_seconds_spent() {
  const std::lock_guard lock(mutex);
  return settings().spent;
}

}  // namespace volta
