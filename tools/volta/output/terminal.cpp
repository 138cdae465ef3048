// Terminals through POSIX calls, and text that fits them.
#include "output/terminal.h"

#include <fmt/format.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <clocale>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cwchar>
#include <optional>

#include "volta/detail/hidden_characters.h"
#include "volta/detail/utf8.h"

namespace volta::cli {
namespace {

constexpr int kDefaultColumns = 80, kFewestColumns = 20, kMostColumns = 10'000;

// Unset and empty variables are treated alike.
std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<int> columns_by_environment() {
  const std::string_view text = environment("COLUMNS");
  int columns = 0;
  const auto [stop, failure] = std::from_chars(text.data(), text.data() + text.size(), columns);
  if (failure != std::errc() || stop != text.data() + text.size() || columns < 1)
    return std::nullopt;
  return columns;
}

std::optional<int> columns_of(int descriptor) {
  struct winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return size.ws_col;
}

int width_of(char32_t code) {
  if (code < 0x80) return 1;
  return std::max(0, ::wcwidth(static_cast<wchar_t>(code)));
}

}  // namespace

void set_locale() { std::setlocale(LC_CTYPE, ""); }

Terminal Terminal::of(int descriptor) {
  Terminal terminal;
  terminal.interactive = ::isatty(descriptor) == 1;
  const std::optional<int> told = columns_by_environment();
  std::optional<int> own;
  if (terminal.interactive) own = columns_of(descriptor);
  terminal.columns =
      std::clamp(told ? *told : own.value_or(kDefaultColumns), kFewestColumns, kMostColumns);
  terminal.wraps = terminal.interactive || told.has_value();
  terminal.colour = terminal.interactive && environment("NO_COLOR").empty() &&
                    environment("TERM") != "dumb" && !environment("TERM").empty();
  terminal.unicode = std::string_view(::nl_langinfo(CODESET)) == "UTF-8";
  return terminal;
}

std::string Terminal::styled(const char* code, std::string_view text) const {
  return colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string printable(std::string_view text, const Terminal& terminal) {
  std::string result;
  while (!text.empty()) {
    const detail::Utf8Character character = detail::first_character(text);
    const std::size_t bytes = std::max<std::size_t>(character.bytes, 1);
    const bool shown = character.bytes > 0 && !is_hidden_character(character.code) &&
                       (character.code < 0x80 || terminal.unicode);
    for (std::size_t i = 0; i < bytes; ++i) {
      if (shown) {
        result += text[i];
      } else {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
      }
    }
    text.remove_prefix(bytes);
  }
  return result;
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const detail::Utf8Character character = detail::first_character(text);
    width += character.bytes == 0 ? 1 : width_of(character.code);
    text.remove_prefix(std::max<std::size_t>(character.bytes, 1));
  }
  return width;
}

std::string shortened(std::string_view text, int columns, const Terminal& terminal) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns < 1) return {};
  std::string result;
  int width = 1;  // width of the ellipsis
  while (!text.empty()) {
    const detail::Utf8Character character = detail::first_character(text);
    const std::size_t bytes = std::max<std::size_t>(character.bytes, 1);
    width += character.bytes == 0 ? 1 : width_of(character.code);
    if (width > columns) break;
    result += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return result + std::string(terminal.ellipsis());
}

std::string wrapped(std::string_view text, int columns, int indent) {
  std::string result;
  int width = indent;
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const int needed = display_width(word);
    if (!first && width + 1 + needed > columns) {
      result += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
      width = indent;
    } else if (!first) {
      result += ' ';
      ++width;
    }
    result += word;
    width += needed;
    first = false;
  }
  return result;
}

}  // namespace volta::cli
