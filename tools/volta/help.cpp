// Help texts, made from the declarations of the commands.
#include "help.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace volta::cli {
namespace {

constexpr int kWidest = 100;
constexpr int kNameColumn = 26;

using Rows = std::vector<std::pair<std::string, std::string>>;

// "  --sort name|size      Order of the tensors"; below a long name the text starts on the next
// line.
std::string rows_text(const Rows& rows, int columns) {
  int name_width = 0;
  for (const auto& [name, text] : rows) name_width = std::max(name_width, display_width(name));
  const bool beside = columns >= 60;
  const int indent = beside ? std::min(name_width + 4, kNameColumn) : 4;
  std::string result;
  for (const auto& [name, text] : rows) {
    std::string line = "  " + name;
    if (beside && display_width(name) + 4 <= indent) {
      line.resize(static_cast<std::size_t>(indent), ' ');
    } else {
      line += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
    }
    result += line + wrapped(text, columns, indent) + "\n";
  }
  return result;
}

// "-q, --quiet", "--sort name|size", "FILE"
std::string option_name(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  std::string name;
  for (const std::string& one : option.get_snames()) name += (name.empty() ? "-" : ", -") + one;
  for (const std::string& one : option.get_lnames()) name += (name.empty() ? "--" : ", --") + one;
  // The type is "TEXT:name|size"; the part after the colon states the allowed values.
  const std::string type = option.get_type_name();
  if (!type.empty()) name += " " + type.substr(type.rfind(':') + 1);
  return name;
}

std::string first_sentence(const std::string& text) { return text.substr(0, text.find(". ")); }

std::string option_text(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) text += fmt::format(" [{}]", option.get_default_str());
  return text;
}

// Splits a command into words; quoted words stay whole.
std::vector<std::string> words_of(std::string_view command) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : command) {
    if (c == '\'') quoted = !quoted;
    if (c != ' ' || quoted) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

// A command to copy. Long ones continue after a backslash, with their comment on a line before.
std::string example_text(std::string_view line, int columns) {
  if (display_width(line) + 2 <= columns) return fmt::format("  {}\n", line);
  const std::size_t hash = std::min(line.find(" # "), line.size());
  std::string text;
  if (hash < line.size()) text = "  # " + wrapped(line.substr(hash + 3), columns - 4, 0) + "\n";
  for (std::size_t at = text.find('\n'); at + 1 < text.size(); at = text.find('\n', at + 1))
    text.insert(at + 1, "  # ");
  int width = 2;
  text += ' ';
  for (const std::string& word : words_of(line.substr(0, hash))) {
    constexpr int kBackslash = 2;
    const int needed = 1 + display_width(word);
    if (width > 4 && width + needed + kBackslash > columns) {
      text += " \\\n   ";
      width = 4;
    }
    text += " " + word;
    width += needed;
  }
  return text + "\n";
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode /*mode*/) const {
  const int columns = std::min(terminal_.columns, kWidest);
  Rows arguments, options, commands;
  std::string usage = name;
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? arguments : options)
        .emplace_back(option_name(*option), option_text(*option));
  }
  for (const CLI::App* command : app->get_subcommands(nullptr)) {
    if (!command->get_group().empty())
      commands.emplace_back(command->get_name(), first_sentence(command->get_description()));
  }
  if (!commands.empty()) usage += " COMMAND";
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_group().empty() || !option->get_positional()) continue;
    usage +=
        option->get_required() ? " " + option_name(*option) : " [" + option_name(*option) + "]";
  }
  if (!options.empty()) usage += " [OPTIONS]";

  std::string help = wrapped(app->get_description() + ".", columns, 0) + "\n\n";
  const auto section = [&](const char* title, const std::string& text) {
    if (!text.empty()) help += terminal_.bold(title) + "\n" + text + "\n";
  };
  section("Usage", "  " + wrapped(usage, columns, 4) + "\n");
  section("Commands", rows_text(commands, columns));
  section("Arguments", rows_text(arguments, columns));
  section("Options", rows_text(options, columns));
  std::string examples;
  const std::string text = app->get_footer();
  std::string_view footer = text;
  while (!footer.empty()) {
    const std::size_t end = std::min(footer.find('\n'), footer.size());
    const std::string_view line = footer.substr(0, end);
    examples +=
        terminal_.wraps ? example_text(line, terminal_.columns) : fmt::format("  {}\n", line);
    footer.remove_prefix(std::min(end + 1, footer.size()));
  }
  section("Examples", examples);
  help.pop_back();  // removes the last empty line
  return help;
}

}  // namespace volta::cli
