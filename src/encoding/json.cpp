// The JSON reader: one pass over the text, with a stack of open arrays and objects.
#include "encoding/json.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "volta/detail/utf8.h"
#include "volta/error.h"

namespace volta::io {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

JsonReader::JsonReader(std::string_view text, std::string source, std::size_t offset)
    : text_(text), source_(std::move(source)), offset_(offset) {
  if (const std::size_t valid = valid_utf8_prefix(text_); valid != text_.size()) {
    at_ = valid;
    fail("invalid UTF-8");
  }
}

void JsonReader::fail(const std::string& problem) const {
  throw IoError(source_ + ": not valid JSON at byte " + std::to_string(offset_ + at_) + ": " +
                problem);
}

void JsonReader::skip_space() {
  while (more() && is_space(text_[at_])) ++at_;
}

bool JsonReader::take(char c) {
  if (!more() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void JsonReader::expect(char c) {
  if (!take(c)) fail(std::string("expected '") + c + "'");
}

JsonReader::Kind JsonReader::kind() {
  skip_space();
  if (!more()) fail("unexpected end");
  switch (peek()) {
    case '{':
      return Kind::object;
    case '[':
      return Kind::array;
    case '"':
      return Kind::string;
    case 't':
    case 'f':
      return Kind::boolean;
    case 'n':
      return Kind::null;
    default:
      if (peek() != '-' && !is_digit(peek())) fail("expected a value");
      return Kind::number;
  }
}

void JsonReader::open(char bracket, bool object) {
  skip_space();
  if (!more()) fail("unexpected end");
  if (open_.size() > kMaxDepth) fail("nested deeper than " + std::to_string(kMaxDepth));
  const std::size_t begin = at_;
  expect(bracket);
  open_.push_back({object, true, begin, keys_.size()});
}

void JsonReader::begin_object() { open('{', true); }
void JsonReader::begin_array() { open('[', false); }

// Checks an object for duplicate keys after its last key. Keys are compared by 64-bit hashes, which
// collide for about one in 2^64 pairs.
void JsonReader::close() {
  const Open closed = open_.back();
  if (closed.object) {
    const auto begin = keys_.begin() + static_cast<std::ptrdiff_t>(closed.keys);
    std::sort(begin, keys_.end());
    const auto twice = std::adjacent_find(begin, keys_.end());
    if (twice != keys_.end()) fail_twice(closed, *twice);
    keys_.resize(closed.keys);
  }
  open_.pop_back();
}

void JsonReader::fail_twice(const Open& object, std::uint64_t hash) const {
  JsonReader again(text_.substr(object.begin, at_ - object.begin), source_);
  again.begin_object();
  while (const auto key = again.next_key()) {
    if (std::hash<std::string_view>()(*key) == hash)
      fail("key " + json_excerpt(*key) + " occurs twice");
    again.skip();
  }
  fail("a key occurs twice");
}

std::optional<std::string_view> JsonReader::next_key() {
  skip_space();
  if (!open_.back().first && !take(',')) {
    expect('}');
    close();
    return std::nullopt;
  }
  if (open_.back().first && take('}')) {
    close();
    return std::nullopt;
  }
  open_.back().first = false;
  return key();
}

std::string_view JsonReader::key() {
  skip_space();
  if (peek() != '"') fail("expected a key");
  const std::string_view text = string();
  keys_.push_back(std::hash<std::string_view>()(text));
  skip_space();
  expect(':');
  return text;
}

bool JsonReader::next_item() {
  skip_space();
  if (open_.back().first ? take(']') : !take(',')) {
    if (!open_.back().first) expect(']');
    close();
    return false;
  }
  open_.back().first = false;
  return true;
}

std::string_view JsonReader::string() {
  skip_space();
  expect('"');
  const std::size_t begin = at_;
  bool plain = true;
  while (!take('"')) {
    if (!more()) fail("unterminated string");
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) fail("control character in a string");
    if (c == '\\' && plain) {
      plain = false;
      scratch_.assign(text_.substr(begin, at_ - begin));
    }
    ++at_;
    if (c == '\\') {
      append_escape();
    } else if (!plain) {
      scratch_.push_back(c);
    }
  }
  return plain ? text_.substr(begin, at_ - 1 - begin) : std::string_view(scratch_);
}

void JsonReader::append_escape() {
  constexpr std::string_view letters = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  if (take('u')) return detail::append_character(scratch_, code_point());
  const std::size_t which = more() ? letters.find(text_[at_]) : std::string_view::npos;
  if (which == std::string_view::npos) fail("unknown escape");
  scratch_.push_back(meanings[which]);
  ++at_;
}

std::uint32_t JsonReader::code_point() {
  const std::uint32_t first = hex4();
  if (first < 0xD800 || first > 0xDFFF) return first;
  if (first > 0xDBFF || !take('\\') || !take('u')) fail("unpaired surrogate");
  const std::uint32_t second = hex4();
  if (second < 0xDC00 || second > 0xDFFF) fail("unpaired surrogate");
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

std::uint32_t JsonReader::hex4() {
  const std::string_view digits = text_.substr(at_, 4);
  std::uint32_t code = 0;
  const auto [stop, failure] =
      std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() != 4 || failure != std::errc() || stop != digits.data() + 4)
    fail("expected four hexadecimal digits");
  at_ += 4;
  return code;
}

void JsonReader::take_digits() {
  if (!is_digit(peek())) fail("expected a digit");
  while (is_digit(peek())) ++at_;
}

std::string_view JsonReader::number() {
  skip_space();
  const std::size_t begin = at_;
  if (!take('-') && !is_digit(peek())) fail(more() ? "expected a value" : "unexpected end");
  if (!take('0')) take_digits();
  if (take('.')) take_digits();
  if (take('e') || take('E')) {
    if (!take('+')) take('-');
    take_digits();
  }
  return text_.substr(begin, at_ - begin);
}

void JsonReader::take_word(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) fail("expected a value");
  at_ += word.size();
}

bool JsonReader::boolean() {
  skip_space();
  const bool value = peek() == 't';
  take_word(value ? "true" : "false");
  return value;
}

void JsonReader::null() {
  skip_space();
  take_word("null");
}

std::optional<std::int64_t> JsonReader::integer() {
  if (kind() == Kind::number) return integer_of(number());
  skip();
  return std::nullopt;
}

void JsonReader::skip_scalar() {
  switch (kind()) {
    case Kind::null:
      return null();
    case Kind::boolean:
      boolean();
      return;
    case Kind::number:
      number();
      return;
    default:
      string();
  }
}

JsonReader::Raw JsonReader::skip() {
  const Kind first = kind();
  const std::size_t begin = at_, depth = open_.size();
  if (first != Kind::object && first != Kind::array) {
    skip_scalar();
    return {text_.substr(begin, at_ - begin), offset_ + begin};
  }
  first == Kind::object ? begin_object() : begin_array();
  while (open_.size() > depth) {
    if (open_.back().object ? !next_key() : !next_item()) continue;
    const Kind next = kind();
    if (next == Kind::object) {
      begin_object();
    } else if (next == Kind::array) {
      begin_array();
    } else {
      skip_scalar();
    }
  }
  return {text_.substr(begin, at_ - begin), offset_ + begin};
}

void JsonReader::finish() {
  skip_space();
  if (at_ != text_.size()) fail("text after the value");
}

std::optional<std::int64_t> integer_of(std::string_view number) {
  std::int64_t result = 0;
  const char *begin = number.data(), *end = begin + number.size();
  const auto [stop, failure] = std::from_chars(begin, end, result);
  if (failure != std::errc() || stop != end) return std::nullopt;
  return result;
}

std::optional<std::int64_t> JsonValue::as_integer() const {
  const auto* number = std::get_if<Number>(&value);
  return number != nullptr ? integer_of(number->text) : std::nullopt;
}

namespace {

// The recursion is bounded by the reader's maximum depth.
JsonValue tree_of(JsonReader& reader) {
  switch (reader.kind()) {
    case JsonReader::Kind::null:
      reader.null();
      return {JsonValue::Null{}};
    case JsonReader::Kind::boolean:
      return {reader.boolean()};
    case JsonReader::Kind::number:
      return {JsonValue::Number{std::string(reader.number())}};
    case JsonReader::Kind::string:
      return {std::string(reader.string())};
    case JsonReader::Kind::array: {
      JsonValue::Array items;
      reader.begin_array();
      while (reader.next_item()) items.push_back(tree_of(reader));
      return {std::move(items)};
    }
    case JsonReader::Kind::object:
      break;
  }
  JsonValue::Object members;
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    std::string name(*key);
    members.push_back({std::move(name), tree_of(reader)});
  }
  return {std::move(members)};
}

}  // namespace

JsonValue parse_json(std::string_view text, const std::string& source) {
  JsonReader reader(text, source);
  JsonValue value = tree_of(reader);
  reader.finish();
  return value;
}

std::string json_quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20) {
      out.append("\\u00").push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
  return out;
}

std::string json_excerpt(std::string_view text) {
  constexpr std::size_t kMostBytes = 256;
  const std::string_view start = text.substr(0, kMostBytes);
  return json_quoted(start.substr(0, valid_utf8_prefix(start)));
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = detail::first_character(text.substr(at)).bytes;
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

}  // namespace volta::io
