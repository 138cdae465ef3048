// BPETokenizer: GPT-2's byte-pair encoding, from Hugging Face's files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "volta/export.h"

namespace volta::text {

struct BPETokenizerOptions {
  // Tokens that are recognised verbatim in a text, if the vocabulary has them.
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  // Puts a space before a text, so that its first word is like all others.
  bool add_prefix_space = false;
};

struct EncodeOptions {
  bool special_tokens = true;  // recognises special tokens; otherwise they are encoded as text
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

// Encodes text as token IDs: GPT-2's pattern splits it into words, numbers, punctuation and white
// space, and the bytes of each piece are merged pair by pair. Any bytes can be encoded, valid UTF-8
// or not, and decode() restores them. A tokenizer is a shared handle to immutable data, so threads
// may share it.
class VOLTA_API BPETokenizer {
 public:
  // Loads from a folder with tokenizer.json or with vocab.json and merges.txt, or from the path of
  // a tokenizer.json. Throws IoError naming the file and the problem.
  static BPETokenizer from_pretrained(const std::string& path);
  static BPETokenizer from_files(const std::string& vocab, const std::string& merges,
                                 const BPETokenizerOptions& options = {});
  static BPETokenizer from_tokenizer_json(const std::string& path);

  std::vector<std::int64_t> encode(std::string_view text, EncodeOptions options = {}) const;
  // Throws ArgumentError for an ID without a token. Several tokens may make up one character, so
  // decoding only some tokens may end inside a character.
  std::string decode(std::span<const std::int64_t> ids, DecodeOptions options = {}) const;

  std::int64_t vocab_size() const;                                  // the largest ID plus one
  std::optional<std::int64_t> id_of(std::string_view token) const;  // by the token's bytes or name
  bool is_special(std::int64_t id) const;

 private:
  struct State;
  explicit BPETokenizer(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace volta::text
