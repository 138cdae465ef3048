// What commands share.
#include "command.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include "nearest.h"

namespace volta::cli {

void Context::print(const Json& document) const {
  // Names in files may be any bytes; JSON is UTF-8.
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
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
  command.add_flag("-q,--quiet", context.quiet, "Print errors only");
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
  return {check, "NUMBER"};
}

Json json_number(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

}  // namespace volta::cli
