// Options of a command line that change a recipe's settings: --set name=value, and the common ones
// by their names.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/settings.h"

namespace volta::cli {

class SettingOptions {
 public:
  // Adds the options of these names (data, epochs, steps, batch, lr, amp, seed), and --set. This
  // object must outlive the command.
  void add_to(CLI::App& command, const std::vector<std::string_view>& names);
  // Changes what was given, --set last. Of epochs and steps the one that is given counts. Throws
  // UsageError, also where both are.
  void apply(Settings& settings) const;
  // What was given, as pairs of option and value; a flag has none.
  std::vector<std::pair<std::string, std::optional<std::string>>> given() const;

 private:
  std::optional<std::string> data_, epochs_, steps_, batch_, lr_, seed_;
  bool amp_ = false;
  std::vector<std::string> set_;
};

}  // namespace volta::cli
