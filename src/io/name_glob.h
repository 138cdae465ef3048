// Globs of names as a shell writes them: * is any text, ? one character, [ab] or [!a-c] one of
// some.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "volta/export.h"

namespace volta::io {

class VOLTA_BACKEND_API NameGlob {
 public:
  explicit NameGlob(std::string_view pattern);

  // Whether the whole name matches.
  bool matches(std::string_view name) const;
  // What each wildcard matched, in their order, or nothing. The first takes as much as it can, then
  // the second, and so on. Takes time in proportion to the product of the two lengths, and nothing
  // is recursive.
  std::optional<std::vector<std::string_view>> captures(std::string_view name) const;

 private:
  enum class Kind : std::uint8_t { literal, any, one, set };
  struct Element {
    Kind kind;
    char literal;
    std::string set;  // the inside of [..]
  };
  static bool takes(const Element& element, char c);

  std::vector<Element> elements_;
};

}  // namespace volta::io
