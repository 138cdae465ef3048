// Shell globs for names: * matches any text, ? one character, and [ab] or [!a-c] one character of a
// set.
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

  // Returns whether the whole name matches.
  bool matches(std::string_view name) const;
  // Returns the text that each wildcard matched, in order, or nothing. The first wildcard takes as
  // much as it can, then the second, and so on. The time is proportional to the product of the two
  // lengths, and there is no recursion.
  std::optional<std::vector<std::string_view>> captures(std::string_view name) const;

 private:
  enum class Kind : std::uint8_t { literal, any, one, set };
  struct Element {
    Kind kind;
    char literal;
    std::string set;  // the characters between [ and ]
  };
  static bool takes(const Element& element, char c);

  std::vector<Element> elements_;
};

}  // namespace volta::io
