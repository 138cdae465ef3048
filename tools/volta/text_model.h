// Language models as `volta generate` uses them: fed tokens, they say what may follow.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "volta/data/text.h"
#include "volta/models.h"
#include "volta/text/tokenizer.h"

namespace volta::cli {

// How text becomes tokens, and tokens text.
class Codec {
 public:
  virtual ~Codec() = default;
  // Throws ArgumentError naming the characters that have no tokens.
  virtual std::vector<std::int64_t> encode(const std::string& text) const = 0;
  virtual std::string decode(std::int64_t token) const = 0;  // bytes, maybe part of a character
  virtual std::int64_t start() const = 0;                    // what an empty prompt stands for
  virtual std::optional<std::int64_t> end() const { return std::nullopt; }  // ends a text
};
std::unique_ptr<Codec> make_codec(data::CharCorpus corpus);
std::unique_ptr<Codec> make_codec(text::BPETokenizer tokenizer);

// A model with what it remembers of the tokens it was given.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual nn::Module& model() = 0;
  // The logits [1, vocab] of the token after these, ids [1, length].
  virtual Tensor feed(const Tensor& ids) = 0;
  virtual void forget(std::int64_t expected) = 0;  // about so many tokens will come
  virtual std::int64_t room() const = 0;           // for so many more it has positions
};
std::unique_ptr<Decoder> make_decoder(models::GPT2 model);
std::unique_ptr<Decoder> make_decoder(models::CharLSTM model);

struct TextModel {
  std::unique_ptr<Codec> codec;
  std::unique_ptr<Decoder> decoder;
};

}  // namespace volta::cli
