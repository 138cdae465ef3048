// The settings of a recipe: names with defaults, stored as text and read by type.
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
  std::string value;  // the default until it is set
  std::string what;
  double least = 0;  // for integers and numbers
  // Settings that determine memory have an upper limit, because a configuration may be untrusted.
  double most = std::numeric_limits<double>::infinity();
};

class Settings {
 public:
  Settings() = default;
  explicit Settings(std::vector<Setting> known) : known_(std::move(known)) {}

  // Throws UsageError for an unknown name, with the nearest known one, and for a value of the wrong
  // type.
  void set(const std::string& name, const std::string& value);
  // Takes "name=value", as in --set.
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
