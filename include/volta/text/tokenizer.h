// BPETokenizer: GPT-2's byte-pair encoding, of Hugging Face's files.
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
  // Tokens that stand for themselves in a text, those of them that the vocabulary has.
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
  bool add_prefix_space = false;  // a text begins with a blank: its first word is one like others
};

struct EncodeOptions {
  bool special_tokens = true;  // find them in the text; otherwise they are text
};

struct DecodeOptions {
  bool skip_special_tokens = false;
};

// Text as numbers: cut into words, numbers, signs and blanks by GPT-2's pattern, their bytes joined
// pair by pair. Any bytes can be encoded, valid UTF-8 or not, and decode() gives them back. A
// shared handle to what never changes: threads may use it at once.
class VOLTA_API BPETokenizer {
 public:
  // A folder with tokenizer.json, or with vocab.json and merges.txt; or the path of a
  // tokenizer.json. Throws IoError, naming file and problem.
  static BPETokenizer from_pretrained(const std::string& path);
  static BPETokenizer from_files(const std::string& vocab, const std::string& merges,
                                 const BPETokenizerOptions& options = {});
  static BPETokenizer from_tokenizer_json(const std::string& path);

  std::vector<std::int64_t> encode(std::string_view text, EncodeOptions options = {}) const;
  // Throws ArgumentError for a number that is no token. The bytes of several tokens may be one
  // character: what part of the tokens gives may end within one.
  std::string decode(std::span<const std::int64_t> ids, DecodeOptions options = {}) const;

  std::int64_t vocab_size() const;                                  // the largest id and one
  std::optional<std::int64_t> id_of(std::string_view token) const;  // of its bytes, or its name
  bool is_special(std::int64_t id) const;

 private:
  struct State;
  explicit BPETokenizer(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace volta::text
