// Depth is found by counting brackets, before anything is built.
#include "json_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "volta/error.h"
#include "volta/io/durable_file.h"

namespace volta::cli {
namespace {

// Where the text nests deeper than is read; text.size() where it does not. Brackets in strings are
// no brackets.
std::size_t first_too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxJsonDepth) return i;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return text.size();
}

}  // namespace

std::string text_of_file(const std::string& path, std::uint64_t max_bytes) {
  return read_regular_file(path, max_bytes);
}

std::optional<Json> parse_json_text(std::string_view text, const Json::parser_callback_t& filter) {
  if (first_too_deep(text) != text.size()) return std::nullopt;
  Json document = Json::parse(text, filter, false);
  if (document.is_discarded()) return std::nullopt;
  return document;
}

Json read_json_file(const std::string& path) {
  const std::string text = text_of_file(path, kMaxConfigBytes);
  if (const std::size_t at = first_too_deep(text); at != text.size())
    throw IoError(
        fmt::format("{}: is nested deeper than {} from byte {} on", path, kMaxJsonDepth, at + 1));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& failure) {
    throw IoError(fmt::format("{}: is no valid JSON from byte {} on", path, failure.byte));
  }
}

}  // namespace volta::cli
