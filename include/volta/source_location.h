// A place in the user's program, captured by default arguments so that errors can name it.
#pragma once

#include <cstdint>
#include <source_location>

namespace volta {

// One pointer to data of the program: it costs nothing to pass on.
class Place {
 public:
  constexpr Place() = default;
  constexpr Place(std::source_location where) : where_(where) {}  // NOLINT: implicit

  constexpr const char* file() const { return where_.file_name(); }
  constexpr std::uint32_t line() const { return where_.line(); }

  // As a default argument this is the caller's place.
  static constexpr Place here(std::source_location where = std::source_location::current()) {
    return Place(where);
  }

 private:
  std::source_location where_;
};

}  // namespace volta
