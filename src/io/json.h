// A small strict JSON reader: RFC 8259, valid UTF-8, no duplicate keys, bounded depth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "volta/export.h"

namespace volta::io {

struct JsonMember;

struct JsonValue {
  struct Null {};
  struct Number {
    std::string text;  // as written: a double could not hold every 64-bit size
  };
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;  // in the order of the text

  std::variant<Null, bool, Number, std::string, Array, Object> value;

  const std::string* as_string() const { return std::get_if<std::string>(&value); }
  const Array* as_array() const { return std::get_if<Array>(&value); }
  const Object* as_object() const { return std::get_if<Object>(&value); }
  // The value when it is a number written as an integer within int64.
  VOLTA_BACKEND_API std::optional<std::int64_t> as_integer() const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// Parses the whole text; throws IoError "<source>: not valid JSON at byte 17: expected ':'".
VOLTA_BACKEND_API JsonValue parse_json(std::string_view text, const std::string& source);

// The text as a JSON string literal, quotes included.
VOLTA_BACKEND_API std::string json_quoted(std::string_view text);

// The number of leading bytes of `text` that are valid UTF-8; text.size() when all are.
VOLTA_BACKEND_API std::size_t valid_utf8_prefix(std::string_view text);

}  // namespace volta::io
