// Text generation with language models: sampling, and generate().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "volta/generator.h"
#include "volta/tensor.h"

namespace volta {

// A generated token.
struct GeneratedToken {
  std::int64_t id = 0;
  // The bytes that this token completes, always whole characters, if generate() was called with
  // text. The start of a character is delivered with a later token; at the end it appears only in
  // the result.
  std::string_view text = {};
};

struct GenerateOptions {
  std::string prompt = {};  // for generate() with text
  std::int64_t tokens = 100;
  double temperature = 1;  // divides the logits; 0 always takes the likeliest token
  std::int64_t top_k = 0;  // samples only among this many of the likeliest tokens; 0 for all
  double top_p = 1;        // samples only among the likeliest tokens with this total probability
  std::optional<std::uint64_t> seed = {};  // by default the thread's generator draws
  std::optional<std::int64_t> stop = {};   // generation ends after this token
  // Number of last tokens that the model sees. Models with a cache use their own limit.
  std::int64_t context = 256;
  // Called with every new token, in order, which waits for each of them; returning false ends
  // generation.
  std::function<bool(const GeneratedToken&)> on_token = {};
};

namespace text {

struct SampleOptions {
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  Generator generator = {};
};

// Draws a token for each row of logits [..., vocab] on their device, as i64 [...]. The same random
// numbers give the same tokens on every device as far as the logits agree.
VOLTA_API Tensor sample_tokens(const Tensor& logits, const SampleOptions& options = {});

// Returns the prompt and its continuation. `logits_of` maps ids [1, length] to logits [1, length,
// vocab]; the logits of a position must depend only on the ids up to it. It is always called with
// the same length, padded with 0, so every token uses the same plan.
VOLTA_API std::vector<std::int64_t> continue_tokens(
    const std::function<Tensor(const Tensor&)>& logits_of, const std::vector<std::int64_t>& prompt,
    Device device, const GenerateOptions& options = {});

// The loop of generate() for a model that keeps its own state: `logits` returns the logits [1,
// vocab] of the next token, and `accept` gets the token [1] drawn from them. Returns the new
// tokens.
VOLTA_API std::vector<std::int64_t> draw_tokens(const std::function<Tensor()>& logits,
                                                const std::function<void(const Tensor&)>& accept,
                                                const GenerateOptions& options = {});

// Throws ArgumentError for invalid options.
VOLTA_API void check_options(const GenerateOptions& options);
// The sampling options of generate(), with a generator for the seed if there is one.
VOLTA_API SampleOptions sample_options(const GenerateOptions& options);

namespace detail {
VOLTA_API Tensor one_row(const std::vector<std::int64_t>& prompt, Device device);
// Removes and returns all whole characters of `bytes`, and leaves an incomplete last one.
VOLTA_API std::string take_characters(std::string& bytes);
}  // namespace detail

}  // namespace text

// Returns the prompt and the model's continuation. The model maps ids to logits as for
// text::continue_tokens, unless it has its own generate(), as models with a cache do. The codec is
// a tokenizer or corpus: encode() maps a string to ids, decode() ids to a string. Call eval() on
// the model before, or dropout is active.
template <class Model, class Codec>
std::string generate(Model& model, const Codec& codec, const GenerateOptions& given) {
  GenerateOptions options = given;
  if (options.on_token) {
    options.on_token = [&codec, told = std::move(options.on_token),
                        bytes = std::string()](const GeneratedToken& token) mutable {
      bytes += codec.decode(std::vector<std::int64_t>{token.id});
      const std::string text = text::detail::take_characters(bytes);
      return told({.id = token.id, .text = text});
    };
  }
  const std::vector<std::int64_t> prompt = codec.encode(options.prompt);
  std::vector<std::int64_t> ids;
  if constexpr (requires(const Tensor& row) { model.generate(row, options); }) {
    const Tensor row = text::detail::one_row(prompt, model.device());
    ids = model.generate(row, options).template to_vector<std::int64_t>();
  } else {
    ids = text::continue_tokens([&](const Tensor& window) { return Tensor(model(window)); }, prompt,
                                model.device(), options);
  }
  return codec.decode(ids);
}

}  // namespace volta
