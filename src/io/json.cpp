// The JSON reader: one pass, recursive descent.
#include "io/json.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "volta/error.h"

namespace volta::io {
namespace {

constexpr int kMaxDepth = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  JsonValue parse_document() {
    if (const std::size_t valid = valid_utf8_prefix(text_); valid != text_.size()) {
      at_ = valid;
      fail("invalid UTF-8");
    }
    JsonValue value = parse_value(0);
    skip_space();
    if (at_ != text_.size()) fail("text after the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw IoError(source_ + ": not valid JSON at byte " + std::to_string(at_) + ": " + problem);
  }

  bool more() const { return at_ < text_.size(); }
  char peek() const { return more() ? text_[at_] : '\0'; }

  void skip_space() {
    while (more() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }

  bool take(char c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }

  JsonValue parse_value(int depth) {
    if (depth > kMaxDepth) fail("nested deeper than " + std::to_string(kMaxDepth));
    skip_space();
    if (!more()) fail("unexpected end");
    switch (peek()) {
      case '{':
        return {parse_object(depth)};
      case '[':
        return {parse_array(depth)};
      case '"':
        return {parse_string()};
      case 't':
        return parse_word("true", {true});
      case 'f':
        return parse_word("false", {false});
      case 'n':
        return parse_word("null", {JsonValue::Null{}});
      default:
        return {parse_number()};
    }
  }

  JsonValue parse_word(std::string_view word, JsonValue value) {
    if (text_.substr(at_, word.size()) != word) fail("expected a value");
    at_ += word.size();
    return value;
  }

  JsonValue::Object parse_object(int depth) {
    JsonValue::Object members;
    expect('{');
    skip_space();
    if (take('}')) return members;
    do {
      skip_space();
      if (peek() != '"') fail("expected a key");
      std::string key = parse_string();
      skip_space();
      expect(':');
      members.push_back({std::move(key), parse_value(depth + 1)});
      skip_space();
    } while (take(','));
    expect('}');
    refuse_duplicates(members);
    return members;
  }

  void refuse_duplicates(const JsonValue::Object& members) const {
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const JsonMember& member : members) keys.push_back(member.key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) fail("key " + json_quoted(*twice) + " occurs twice");
  }

  JsonValue::Array parse_array(int depth) {
    JsonValue::Array items;
    expect('[');
    skip_space();
    if (take(']')) return items;
    do {
      items.push_back(parse_value(depth + 1));
      skip_space();
    } while (take(','));
    expect(']');
    return items;
  }

  std::string parse_string() {
    std::string out;
    expect('"');
    while (!take('"')) {
      if (!more()) fail("unterminated string");
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20) fail("control character in a string");
      ++at_;
      if (c != '\\') {
        out.push_back(c);
      } else {
        parse_escape(out);
      }
    }
    return out;
  }

  void parse_escape(std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (take('u')) {
      append_utf8(out, parse_code_point());
      return;
    }
    const std::size_t which = more() ? letters.find(text_[at_]) : std::string_view::npos;
    if (which == std::string_view::npos) fail("unknown escape");
    out.push_back(meanings[which]);
    ++at_;
  }

  std::uint32_t parse_code_point() {
    const std::uint32_t first = parse_hex4();
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || !take('\\') || !take('u')) fail("unpaired surrogate");
    const std::uint32_t second = parse_hex4();
    if (second < 0xDC00 || second > 0xDFFF) fail("unpaired surrogate");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }

  std::uint32_t parse_hex4() {
    const std::string_view digits = text_.substr(at_, 4);
    std::uint32_t code = 0;
    const auto [stop, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || failure != std::errc() || stop != digits.data() + 4)
      fail("expected four hexadecimal digits");
    at_ += 4;
    return code;
  }

  void take_digits() {
    if (!is_digit(peek())) fail("expected a digit");
    while (is_digit(peek())) ++at_;
  }

  JsonValue::Number parse_number() {
    const std::size_t begin = at_;
    if (!take('-') && !is_digit(peek())) fail("expected a value");
    if (!take('0')) take_digits();
    if (take('.')) take_digits();
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      take_digits();
    }
    return {std::string(text_.substr(begin, at_ - begin))};
  }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> JsonValue::as_integer() const {
  const auto* number = std::get_if<Number>(&value);
  if (number == nullptr) return std::nullopt;
  std::int64_t result = 0;
  const char* end = number->text.data() + number->text.size();
  const auto [stop, failure] = std::from_chars(number->text.data(), end, result);
  if (failure != std::errc() || stop != end) return std::nullopt;
  return result;
}

JsonValue parse_json(std::string_view text, const std::string& source) {
  return Parser(text, source).parse_document();
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

std::size_t valid_utf8_prefix(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const std::uint32_t lead = byte(at);
    const std::size_t length = lead < 0x80       ? 1
                               : lead >> 5 == 6  ? 2
                               : lead >> 4 == 14 ? 3
                               : lead >> 3 == 30 ? 4
                                                 : 0;
    if (length == 0 || text.size() - at < length) return at;
    if (length == 1) {
      ++at;
      continue;
    }
    std::uint32_t code = lead & (0x7Fu >> length);
    for (std::size_t i = 1; i < length; ++i) {
      if (byte(at + i) >> 6 != 2) return at;
      code = code << 6 | (byte(at + i) & 0x3F);
    }
    constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // shorter forms exist below
    if (code < kLeast[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return at;
    at += length;
  }
  return at;
}

}  // namespace volta::io
