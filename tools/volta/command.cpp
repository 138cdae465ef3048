// Functions that all commands use.
#include "command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <system_error>
#include <utility>

#include "output/nearest.h"
#include "output/utf8.h"

namespace volta::cli {

void Context::print(const Json& document) const {
  // Names in files may be any bytes, but JSON is UTF-8, and may be shown on a terminal.
  out << with_hidden_escaped(document.dump(2, ' ', false, Json::error_handler_t::replace)) << '\n';
}

void Context::warn(const std::string& message) const {
  if (quiet) return;
  err << fmt::format("volta {}: warning: {}\n", command, printable(message, err_terminal));
}

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& examples) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer(examples);
  return command;
}

void add_json(CLI::App& command, Context& context) {
  command.add_flag("--json", context.json, "Print one JSON document instead, with exact numbers");
}

void add_quiet(CLI::App& command, Context& context) {
  command.add_flag("-q,--quiet", context.quiet, "No warnings and no word about success");
}

void on_run(CLI::App& command, Context& context, std::function<int()> action) {
  command.callback([&command, &context, action = std::move(action)] {
    context.command = command.get_name();
    context.action = action;
  });
}

CLI::Validator one_of(std::vector<std::string> names) {
  const std::string all = fmt::format("{}", fmt::join(names, ", "));
  const std::string kind = fmt::format("{}", fmt::join(names, "|"));
  const auto check = [names = std::move(names), all](const std::string& text) -> std::string {
    for (const std::string& name : names)
      if (text == name) return {};
    return fmt::format("'{}' is not one of {}{}", text, all, suggestion(text, names));
  };
  return {check, kind};
}

CLI::Validator at_least(double least) {
  const auto check = [least](const std::string& text) -> std::string {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data(), end, value);
    if (failure != std::errc() || stop != end || !std::isfinite(value))
      return fmt::format("'{}' is not a number", text);
    if (value < least) return fmt::format("{} is less than {}", text, least);
    return {};
  };
  return {check, "N"};
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data(), end, value);
    if (stop != end || failure == std::errc::invalid_argument)
      return fmt::format("'{}' is not a whole number", text);
    if (failure != std::errc() || value < least || value > most)
      return fmt::format("{} is not from {} to {}", text, least, most);
    return {};
  };
  return {check, "N"};
}

CLI::Validator device_name() {
  const auto check = [](const std::string& text) -> std::string {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string family = text.substr(0, colon), number = text.substr(colon);
    const bool numbered = family == "cuda" || family == "opencl";
    const bool known = numbered || family == "cpu" || family == "gpu" || family == "best";
    if (known && number.empty()) return {};
    if (numbered && number.size() > 1 && number[1] != '-') {
      int index = 0;
      const char* end = number.data() + number.size();
      const auto [stop, failure] = std::from_chars(number.data() + 1, end, index);
      if (failure == std::errc() && stop == end) return {};
    }
    return fmt::format("'{}' is not one of cpu, cuda:N, opencl:N, gpu, best{}", text,
                       known ? "" : suggestion(family, {"cpu", "cuda", "opencl", "gpu", "best"}));
  };
  return {check, "DEVICE"};
}

Json json_number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

}  // namespace volta::cli
