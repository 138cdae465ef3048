// Globs and renaming by globs: the first line is the pattern, the second the replacement, the rest
// a name. Both ways of matching must agree, also for plain names.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "io/name_glob.h"
#include "volta/error.h"
#include "volta/io/state_dict_mapper.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string rest(reinterpret_cast<const char*>(data), size);
  const auto line = [&] {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string text = rest.substr(0, end);
    rest.erase(0, end + 1);
    return text;
  };
  const std::string pattern = line(), replacement = line();
  const volta::io::NameGlob glob(pattern);
  const auto captures = glob.captures(rest);
  if (captures.has_value() != glob.matches(rest)) std::abort();
  std::size_t captured = 0;
  if (captures)
    for (const std::string_view part : *captures) captured += part.size();
  if (captured > rest.size()) std::abort();
  const volta::NamePattern named = volta::NamePattern::glob(pattern);
  if (!captures && named.replaced(rest, replacement) != rest) std::abort();
  if (captures) named.replaced(rest, replacement);
  try {
    volta::NamePattern::regex("^(h\\.)?(\\d+)\\.(.*)$").matches(rest);
  } catch (const volta::ArgumentError&) {
    if (rest.size() <= volta::NamePattern::kMaxRegexName) std::abort();
  }
  return 0;
}
