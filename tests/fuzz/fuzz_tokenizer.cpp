// Tokenizer files of any bytes, and any text through those that are valid vocabularies. The first
// byte selects the kind of input: a tokenizer.json, vocab.json and merges.txt separated by a zero,
// a GPT-2 config.json, or a text for a vocabulary of single bytes and a few pairs.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "fuzz/memory_file.h"
#include "volta/error.h"
#include "volta/models/gpt2.h"
#include "volta/text/tokenizer.h"

namespace {

using volta::text::BPETokenizer;
using Bytes = std::span<const std::uint8_t>;

MemoryFile file_of(Bytes bytes) { return {bytes.data(), bytes.size()}; }
MemoryFile file_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// The text begins with a blank, so that add_prefix_space adds none.
void expect_back(const BPETokenizer& tokenizer, const std::string& text) {
  if (tokenizer.decode(tokenizer.encode(text, {.special_tokens = false})) != text) std::abort();
  for (const std::int64_t id : tokenizer.encode(text))
    if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
}

// A vocabulary with the character for every byte.
BPETokenizer plain() {
  std::string vocab = "{";
  int id = 0, stand_in = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    char escape[16];
    std::snprintf(escape, sizeof escape, "\"\\u%04x\":", printable ? byte : stand_in++);
    vocab += escape + std::to_string(id++) + ",";
  }
  vocab += R"("th":256,"the":257,"\u0120the":258,"''":259,"<|endoftext|>":260})";
  const MemoryFile tokens = file_of(vocab), merges = file_of("t h\nth e\n\u0120 the\n' '\n");
  return BPETokenizer::from_files(tokens.path(), merges.path());
}

void read(std::uint8_t kind, Bytes rest) {
  const std::string sample = " the <|endoftext|> it's  4\xFF\n";
  if (kind % 4 == 0) {
    expect_back(BPETokenizer::from_tokenizer_json(file_of(rest).path()), sample);
  } else if (kind % 4 == 1) {
    std::size_t zero = 0;
    while (zero < rest.size() && rest[zero] != 0) ++zero;
    const MemoryFile vocab = file_of(rest.first(zero));
    const MemoryFile merges = file_of(rest.subspan(std::min(zero + 1, rest.size())));
    expect_back(BPETokenizer::from_files(vocab.path(), merges.path()), sample);
  } else if (kind % 4 == 2) {
    volta::models::read_gpt2_config(file_of(rest).path());
  } else {
    static const BPETokenizer tokenizer = plain();
    expect_back(tokenizer, " " + std::string(rest.begin(), rest.end()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    read(data[0], Bytes(data + 1, size - 1));
  } catch (const volta::IoError&) {
  }
  return 0;
}
