// Language models for `volta generate`: they take tokens and predict the next one.
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

// Converts between text and tokens.
class Codec {
 public:
  virtual ~Codec() = default;
  // Throws ArgumentError naming the characters without tokens.
  virtual std::vector<std::int64_t> encode(const std::string& text) const = 0;
  virtual std::string decode(std::int64_t token) const = 0;  // bytes, possibly part of a character
  virtual std::int64_t start() const = 0;  // the token that an empty prompt stands for
  // The token that ends a text.
  virtual std::optional<std::int64_t> end() const { return std::nullopt; }
};
std::unique_ptr<Codec> make_codec(data::CharCorpus corpus);
std::unique_ptr<Codec> make_codec(text::BPETokenizer tokenizer);

// A model with its state after the tokens that it was fed.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual nn::Module& model() = 0;
  // Returns the logits [1, vocab] of the token after ids [1, length].
  virtual Tensor feed(const Tensor& ids) = 0;
  virtual void forget(std::int64_t expected) = 0;  // resets the state for about `expected` tokens
  virtual std::int64_t room() const = 0;  // number of further tokens that it has positions for
};
std::unique_ptr<Decoder> make_decoder(models::GPT2 model);
std::unique_ptr<Decoder> make_decoder(models::CharLSTM model);

struct TextModel {
  std::unique_ptr<Codec> codec;
  std::unique_ptr<Decoder> decoder;
};

}  // namespace volta::cli
