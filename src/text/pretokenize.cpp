// GPT-2's pattern by hand.
#include "text/pretokenize.h"

#include "text/unicode.h"

namespace volta::text {
namespace {

// The end of the characters of a class that start at `at`.
std::size_t end_of_run(std::string_view text, std::size_t at, CharacterClass kind) {
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.bytes;
  }
  return at;
}

// The length of "'s", "'re", ... at the start of the text, 0 without.
std::size_t contraction(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  return 0;
}

// Blanks up to the end of the text are one piece; of those before something else the last one is
// left to it, unless it is the only one.
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
