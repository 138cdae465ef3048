// A small strict JSON reader: RFC 8259, valid UTF-8, no duplicate keys, bounded depth. JsonReader
// hands out one value after the other and is what files of any size are read with; parse_json makes
// a tree, which takes up to a hundred times the text, and is for short texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "volta/export.h"

namespace volta::io {

// Walks over a text from value to value. The caller says what it expects; whatever else the text
// has there is an IoError "<source>: not valid JSON at byte 17: expected ':'". Nothing is
// recursive, and besides 8 bytes for each key of the objects that are open no memory is used.
//
//   reader.begin_object();
//   while (auto key = reader.next_key()) { ... exactly one value, or skip() ... }
//   reader.finish();
class VOLTA_BACKEND_API JsonReader {
 public:
  static constexpr std::size_t kMaxDepth = 64;

  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };

  // The text must outlive the reader. `source` begins messages, in which bytes count from `offset`.
  JsonReader(std::string_view text, std::string source, std::size_t offset = 0);

  Kind kind();  // of the next value
  void begin_object();
  // The next key of the object begun last; none at its end. Valid until the next call, as is
  // string().
  std::optional<std::string_view> next_key();
  void begin_array();
  bool next_item();  // whether the array begun last has another value

  std::string_view string();
  std::string_view number();  // as written
  bool boolean();
  void null();
  // The value if it is a number written as an integer within int64; any other value is skipped.
  std::optional<std::int64_t> integer();
  // Passes over a value of any kind, checked as all others; its text, for another reader, which
  // begins `at` bytes from the start of this one's.
  struct Raw {
    std::string_view text;
    std::size_t at = 0;
  };
  Raw skip();
  void finish();  // nothing follows

  [[noreturn]] void fail(const std::string& problem) const;

 private:
  struct Open {
    bool object, first;
    std::size_t begin;  // in the text
    std::size_t keys;   // where those of this object begin in keys_
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
  std::vector<std::uint64_t> keys_;  // hashes, to find keys that occur twice
  std::string scratch_;              // of a string with escapes
};

// The integer that a number's text is, where it is one within int64.
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
  // The value when it is a number written as an integer within int64.
  VOLTA_BACKEND_API std::optional<std::int64_t> as_integer() const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// Parses the whole text; throws as JsonReader does, IoError "<source>: not valid JSON at byte 17:
// expected ':'".
VOLTA_BACKEND_API JsonValue parse_json(std::string_view text, const std::string& source);

// The text as a JSON string literal, quotes included.
VOLTA_BACKEND_API std::string json_quoted(std::string_view text);

// The same of a text from a file, for a message: no more than its first 256 bytes, as far as they
// are valid.
VOLTA_BACKEND_API std::string json_excerpt(std::string_view text);

// The number of leading bytes of `text` that are valid UTF-8; text.size() when all are.
VOLTA_BACKEND_API std::size_t valid_utf8_prefix(std::string_view text);

}  // namespace volta::io
