// Text from language models: sampling, and generate().
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

// A token as soon as it is drawn.
struct GeneratedToken {
  std::int64_t id = 0;
  // Of generate() with text: the bytes that this token completes, never part of a character. What a
  // token begins comes with a later one, and at the end of all only in the result.
  std::string_view text = {};
};

struct GenerateOptions {
  std::string prompt = {};  // of generate() with text
  std::int64_t tokens = 100;
  double temperature = 1;                  // of the logits; 0: always the likeliest token
  std::int64_t top_k = 0;                  // only that many of the likeliest; 0: all
  double top_p = 1;                        // only the likeliest that have this share together
  std::optional<std::uint64_t> seed = {};  // otherwise the thread's generator draws
  std::optional<std::int64_t> stop = {};   // the token after which nothing follows
  // The model sees so many of the last tokens. Of models that have a cache: their own limit.
  std::int64_t context = 256;
  // Told every new token in order; false: nothing follows this one. Waits for each of them.
  std::function<bool(const GeneratedToken&)> on_token = {};
};

namespace text {

struct SampleOptions {
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  Generator generator = {};
};

// A token for each row of logits [..., vocab], drawn on their device: [...], i64. The same numbers
// give the same tokens on every device, as far as the logits agree.
VOLTA_API Tensor sample_tokens(const Tensor& logits, const SampleOptions& options = {});

// The prompt and what a model makes of it. `logits_of` maps ids [1, length] to logits [1, length,
// vocab], those of a position from the ids up to there only. It is called with one length all the
// while, the ids behind the last one being 0: every token is the same plan.
VOLTA_API std::vector<std::int64_t> continue_tokens(
    const std::function<Tensor(const Tensor&)>& logits_of, const std::vector<std::int64_t>& prompt,
    Device device, const GenerateOptions& options = {});

// The loop of generate(), for a model with a memory of its own: `logits` gives those of the next
// token, [1, vocab], and `accept` is told the token drawn of them, [1]. The new tokens.
VOLTA_API std::vector<std::int64_t> draw_tokens(const std::function<Tensor()>& logits,
                                                const std::function<void(const Tensor&)>& accept,
                                                const GenerateOptions& options = {});

// Throws ArgumentError for options that mean nothing.
VOLTA_API void check_options(const GenerateOptions& options);
// How generate() draws: from the seed, if there is one.
VOLTA_API SampleOptions sample_options(const GenerateOptions& options);

namespace detail {
VOLTA_API Tensor one_row(const std::vector<std::int64_t>& prompt, Device device);
// Takes from `bytes` what ends with a whole character: all but the beginning of one.
VOLTA_API std::string take_characters(std::string& bytes);
}  // namespace detail

}  // namespace text

// The prompt and what the model says after it. The model maps ids to logits, as for
// text::continue_tokens, unless it has a generate() of its own, as models with a cache have. The
// codec is a tokenizer or corpus: encode() gives ids of a string, decode() a string of ids. Call
// eval() on the model before, or dropout is active.
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
