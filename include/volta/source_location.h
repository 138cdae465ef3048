// A source location in the user's program, captured by default arguments so that errors can name
// it.
#pragma once

#include <cstdint>
#include <source_location>

namespace volta {

// It is one pointer to static data, so passing it on costs nothing.
class SourceLocation {
 public:
  constexpr SourceLocation() = default;
  constexpr SourceLocation(std::source_location where) : where_(where) {}  // NOLINT: implicit

  constexpr const char* file() const { return where_.file_name(); }
  constexpr std::uint32_t line() const { return where_.line(); }

  // Returns the location of the call if it is used as a default argument.
  static constexpr SourceLocation here(
      std::source_location where = std::source_location::current()) {
    return SourceLocation(where);
  }

 private:
  std::source_location where_;
};

}  // namespace volta
