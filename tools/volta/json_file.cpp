// Depth and number of members are checked by counting brackets and colons before anything is
// parsed.
#include "json_file.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "volta/error.h"
#include "volta/io/durable_file.h"

namespace volta::cli {
namespace {

struct Excess {
  std::size_t at;  // position in the text
  std::string problem;
};

// Finds where the text nests too deeply or an object has too many members. Brackets and colons
// inside strings do not count.
std::optional<Excess> excess_in(std::string_view text, std::size_t most_members) {
  std::array<std::size_t, kMaxJsonDepth + 1> members{};  // members so far of each open object
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
      if (++depth > kMaxJsonDepth)
        return Excess{i, fmt::format("is nested deeper than {}", kMaxJsonDepth)};
      members[depth] = 0;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    } else if (c == ':' && ++members[depth] > most_members) {
      return Excess{i, fmt::format("has more than {} members in an object", most_members)};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string text_of_file(const std::string& path, std::uint64_t max_bytes) {
  return read_regular_file(path, max_bytes);
}

std::optional<Json> parse_json_text(std::string_view text, const Json::parser_callback_t& filter) {
  constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();
  if (excess_in(text, filter ? kAny : kMaxJsonMembers)) return std::nullopt;
  Json document = Json::parse(text, filter, false);
  if (document.is_discarded()) return std::nullopt;
  return document;
}

Json read_json_file(const std::string& path) {
  const std::string text = text_of_file(path, kMaxConfigBytes);
  if (const std::optional<Excess> excess = excess_in(text, kMaxJsonMembers))
    throw IoError(fmt::format("{}: {} from byte {} on", path, excess->problem, excess->at + 1));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& failure) {
    throw IoError(fmt::format("{}: is no valid JSON from byte {} on", path, failure.byte));
  } catch (const Json::out_of_range&) {
    throw IoError(fmt::format("{}: contains a number that is too large", path));
  }
}

}  // namespace volta::cli
