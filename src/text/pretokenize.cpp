// GPT-2's pattern, matched by hand.
#include "text/pretokenize.h"

#include "encoding/unicode.h"

namespace volta::text {
namespace {

// Returns the end of the run of characters of one class that starts at `at`.
std::size_t end_of_run(std::string_view text, std::size_t at, CharacterClass kind) {
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

// Returns the length of a contraction ("'s", "'re", ...) at the start of the text, or 0.
std::size_t contraction(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  return 0;
}

// White space up to the end of the text is one piece. Before other text, the last character of
// several is left to the next piece.
std::size_t end_of_blanks(std::string_view text, std::size_t at) {
  std::size_t last = at, end = at;
  while (end < text.size()) {
    const Character next = character_at(text, end);
    if (next.kind != CharacterClass::space) return last == at ? end : last;
    last = end;
    end += next.bytes;
  }
  return end;
}

}  // namespace

std::size_t end_of_piece(std::string_view text, std::size_t at) {
  if (const std::size_t length = contraction(text.substr(at)); length > 0) return at + length;
  const std::size_t start = text[at] == ' ' ? at + 1 : at;
  if (start < text.size()) {
    const CharacterClass kind = character_at(text, start).kind;
    if (kind != CharacterClass::space) return end_of_run(text, start, kind);
  }
  return end_of_blanks(text, at);
}

}  // namespace volta::text
