// Command-line options that change a recipe's settings: --set name=value, and the common settings
// by name.
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
  // Adds options with these names (data, epochs, steps, batch, lr, amp, seed), and --set. This
  // object must outlive the command.
  void add_to(CLI::App& command, const std::vector<std::string_view>& names);
  // Applies the given options, --set last. Of epochs and steps the given one counts; throws
  // UsageError if both are given.
  void apply(Settings& settings) const;
  // The given options with their values; a flag has no value.
  std::vector<std::pair<std::string, std::optional<std::string>>> given() const;

 private:
  std::optional<std::string> data_, epochs_, steps_, batch_, lr_, seed_;
  bool amp_ = false;
  std::vector<std::string> set_;
};

}  // namespace volta::cli
