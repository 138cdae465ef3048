#include "train/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "command.h"
#include "output/nearest.h"

namespace volta::cli {
namespace {

template <class Number>
bool reads(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end;
}

std::string range_of(const Setting& setting) {
  return std::isfinite(setting.most)
             ? fmt::format("from {:.0f} to {:.0f}", setting.least, setting.most)
             : fmt::format("of at least {}", setting.least);
}

void check(const Setting& setting, const std::string& value) {
  const auto refuse = [&](const std::string& wants) {
    throw UsageError(fmt::format("{} must be {}, got '{}'", setting.name, wants, value));
  };
  switch (setting.kind) {
    case Setting::Kind::integer: {
      std::int64_t number = 0;
      const bool good = reads(value, number) && static_cast<double>(number) >= setting.least &&
                        static_cast<double>(number) <= setting.most;
      if (!good) refuse("a whole number " + range_of(setting));
      return;
    }
    case Setting::Kind::number: {
      double number = 0;
      const bool good = reads(value, number) && std::isfinite(number) && number >= setting.least &&
                        number <= setting.most;
      if (!good) refuse("a number " + range_of(setting));
      return;
    }
    case Setting::Kind::flag:
      if (value != "true" && value != "false") refuse("true or false");
      return;
    case Setting::Kind::text:
      return;
  }
}

// Parses a value that check() has accepted.
template <class Number>
Number value_of(const Setting& setting) {
  Number number = 0;
  if (!reads(setting.value, number)) {
    throw std::logic_error(
        fmt::format("the setting {} is '{}', which is no number", setting.name, setting.value));
  }
  return number;
}

}  // namespace

void Settings::set(const std::string& name, const std::string& value) {
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const Setting& setting) { return setting.name == name; });
  if (found == known_.end()) {
    std::vector<std::string> names;
    for (const Setting& setting : known_) names.push_back(setting.name);
    std::string hint = suggestion(name, names);
    if (hint.empty()) hint = fmt::format("; there are {}", fmt::join(names, ", "));
    throw UsageError(fmt::format("there is no setting '{}'{}", name, hint));
  }
  check(*found, value);
  found->value = value;
}

void Settings::set(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError(fmt::format("--set needs name=value, got '{}'", assignment));
  set(assignment.substr(0, equals), assignment.substr(equals + 1));
}

const Setting& Settings::find(std::string_view name) const {
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const Setting& setting) { return setting.name == name; });
  if (found == known_.end())
    throw std::logic_error(fmt::format("the recipe has no setting '{}'", name));
  return *found;
}

bool Settings::has(std::string_view name) const {
  return std::any_of(known_.begin(), known_.end(),
                     [&](const Setting& setting) { return setting.name == name; });
}
std::int64_t Settings::integer(std::string_view name) const {
  return value_of<std::int64_t>(find(name));
}
double Settings::number(std::string_view name) const { return value_of<double>(find(name)); }
bool Settings::flag(std::string_view name) const { return find(name).value == "true"; }
const std::string& Settings::text(std::string_view name) const { return find(name).value; }

}  // namespace volta::cli
