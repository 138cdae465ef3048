// A place in the user's program, captured by default arguments so that errors can name it.
#pragma once

#include <cstdint>
#include <source_location>

namespace volta {

struct Place {
  const char* file = "";
  std::uint32_t line = 0;

  constexpr Place() = default;
  constexpr Place(std::source_location where)
      : file(where.file_name()), line(where.line()) {}  // NOLINT

  // As a default argument this is the caller's place.
  static constexpr Place here(std::source_location where = std::source_location::current()) {
    return Place(where);
  }
};

}  // namespace volta
