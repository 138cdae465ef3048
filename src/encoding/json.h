// A small strict JSON reader: RFC 8259, valid UTF-8, no duplicate keys, bounded depth. JsonReader
// returns one value after the other and suits files of any size. parse_json returns a tree, which
// takes up to a hundred times the memory of the text and is meant for short texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "volta/export.h"

namespace volta::io {

// Reads a text from value to value. The caller says what it expects next; anything else is an
// IoError "<source>: not valid JSON at byte 17: expected ':'". The reader does not recurse, and
// needs 8 bytes for each key of the objects that are open.
//
//   reader.begin_object();
//   while (auto key = reader.next_key()) { ... exactly one value, or skip() ... }
//   reader.finish();
class VOLTA_BACKEND_API JsonReader {
 public:
  static constexpr std::size_t kMaxDepth = 64;

  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };

  // The text must outlive the reader. Messages begin with `source` and count bytes from `offset`.
  JsonReader(std::string_view text, std::string source, std::size_t offset = 0);

  Kind kind();  // kind of the next value
  void begin_object();
  // Returns the next key of the innermost open object, or nothing at its end. Like that of
  // string(), the result is valid until the next call.
  std::optional<std::string_view> next_key();
  void begin_array();
  bool next_item();  // whether the innermost open array has another value

  std::string_view string();
  std::string_view number();  // the number as written
  bool boolean();
  void null();
  // Returns an integer that fits int64. Any other value is skipped and gives nothing.
  std::optional<std::int64_t> integer();
  // Skips and checks a value of any kind. Returns its text, which starts at byte `at` of this
  // reader's text and can be passed to another reader.
  struct Raw {
    std::string_view text;
    std::size_t at = 0;
  };
  Raw skip();
  void finish();  // requires the end of the text
  // What was read ends before this byte of the text.
  std::size_t position() const { return at_; }

  [[noreturn]] void fail(const std::string& problem) const;

 private:
  struct Open {
    bool object, first;
    std::size_t begin;  // position in the text
    std::size_t keys;   // index of the object's first key in keys_
  };
  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }
  void skip_space();
  bool take(char c);
  void expect(char c);
  void open(char bracket, bool object);
  void close();
  [[noreturn]] void fail_twice(const Open& object, std::uint64_t hash) const;
  void take_digits();
  void take_word(std::string_view word);
  void append_escape();
  std::uint32_t code_point();
  std::uint32_t hex4();
  std::string_view key();
  void skip_scalar();

  std::string_view text_;
  std::string source_;
  std::size_t offset_, at_ = 0;
  std::vector<Open> open_;
  std::vector<std::uint64_t> keys_;  // hashes of keys, to find duplicates
  std::string scratch_;              // content of a string with escapes
};

// Returns the integer that a number's text stands for, if it is an integer that fits int64.
VOLTA_BACKEND_API std::optional<std::int64_t> integer_of(std::string_view number);

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
  // Returns the integer, if the value is a number written as an integer that fits int64.
  VOLTA_BACKEND_API std::optional<std::int64_t> as_integer() const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// Parses the whole text. Throws IoError "<source>: not valid JSON at byte 17: expected ':'".
VOLTA_BACKEND_API JsonValue parse_json(std::string_view text, const std::string& source);

// Returns the text as a JSON string literal, including quotes.
VOLTA_BACKEND_API std::string json_quoted(std::string_view text);

// Quotes at most the first 256 bytes of a text from a file for a message, as far as they are valid
// UTF-8.
VOLTA_BACKEND_API std::string json_excerpt(std::string_view text);

// The number of leading bytes of `text` that are valid UTF-8; text.size() when all are.
VOLTA_BACKEND_API std::size_t valid_utf8_prefix(std::string_view text);

}  // namespace volta::io
