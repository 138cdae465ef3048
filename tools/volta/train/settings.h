// What of a recipe can be set: names with defaults, kept as text, read as what they are.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace volta::cli {

struct Setting {
  enum class Kind : std::uint8_t { integer, number, text, flag };
  std::string name;
  Kind kind = Kind::text;
  std::string value;  // the default, until it is set
  std::string what;
  double least = 0;  // of integers and numbers
  // What memory is taken in proportion to has an end: a configuration may come from somebody else.
  double most = std::numeric_limits<double>::infinity();
};

class Settings {
 public:
  Settings() = default;
  explicit Settings(std::vector<Setting> known) : known_(std::move(known)) {}

  // Throws UsageError for a name that is not known, suggesting the nearest, and for a value that is
  // not of its kind.
  void set(const std::string& name, const std::string& value);
  // "name=value", as --set has it.
  void set(const std::string& assignment);

  bool has(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<Setting>& all() const { return known_; }

 private:
  const Setting& find(std::string_view name) const;
  std::vector<Setting> known_;
};

}  // namespace volta::cli
