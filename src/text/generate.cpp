// Sampling on the device, and the loop that feeds tokens back to the model.
#include "volta/text/generate.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "volta/autograd.h"
#include "volta/detail/require_range.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/indexing.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta {
namespace text {
namespace {

void check_sampling(const char* op, double temperature, std::int64_t top_k, double top_p) {
  if (!(temperature >= 0))
    throw ArgumentError(
        fmt::format("{}: temperature must not be negative, got {}", op, temperature));
  if (top_k < 0)
    throw ArgumentError(fmt::format("{}: top_k must not be negative, got {}", op, top_k));
  if (!(top_p > 0 && top_p <= 1))
    throw ArgumentError(fmt::format("{}: top_p must be in (0, 1], got {}", op, top_p));
}

// Draws an index with the probabilities softmax(logits), by the Gumbel-max trick.
Tensor drawn(const Tensor& logits, const Generator& generator) {
  const Tensor u = rand(logits.shape(), {.device = logits.device(), .generator = generator});
  return argmax(logits - log(-log(u)), -1);
}

void check_prompt(const std::vector<std::int64_t>& prompt) {
  if (prompt.empty()) throw ArgumentError("generate: the prompt has no tokens to start from");
}

}  // namespace

Tensor sample_tokens(const Tensor& logits, const SampleOptions& options) {
  check_sampling("sample_tokens", options.temperature, options.top_k, options.top_p);
  if (!logits.defined()) throw ArgumentError("sample_tokens: logits is not a tensor");
  if (logits.rank() < 1 || logits.size(-1) < 1 || !is_floating(logits.dtype())) {
    throw ShapeError(fmt::format("sample_tokens: expected floating logits [..., vocab], got {} {}",
                                 name_of(logits.dtype()), to_string(logits.shape())));
  }
  const NoGrad no_grad;
  if (options.temperature == 0 || options.top_k == 1) return argmax(logits, -1);
  const Tensor scaled = logits.to(DType::f32) / options.temperature;
  const std::int64_t vocab = logits.size(-1);
  const std::int64_t most = options.top_k == 0 ? vocab : std::min(options.top_k, vocab);
  if (most == vocab && options.top_p == 1) return drawn(scaled, options.generator);
  Sorted likeliest = most == vocab ? sort(scaled, -1, {.descending = true}) : topk(scaled, most);
  if (options.top_p < 1) {
    // A token is kept if the tokens before it have a total probability below top_p.
    const Tensor p = softmax(likeliest.values, -1);
    const Tensor beyond = cumsum(p, -1) - p >= options.top_p;
    likeliest.values =
        masked_fill(likeliest.values, beyond, -std::numeric_limits<double>::infinity());
  }
  const Tensor place = drawn(likeliest.values, options.generator).unsqueeze(-1);
  return gather(likeliest.indices, -1, place).squeeze(-1);
}

void check_options(const GenerateOptions& options) {
  constexpr std::int64_t kMost = std::int64_t{1} << 32;
  volta::detail::require_range("generate", "tokens", options.tokens, 0, kMost);
  volta::detail::require_range("generate", "context", options.context, 1, kMost);
  check_sampling("generate", options.temperature, options.top_k, options.top_p);
}

SampleOptions sample_options(const GenerateOptions& options) {
  return {.temperature = options.temperature,
          .top_k = options.top_k,
          .top_p = options.top_p,
          .generator = options.seed ? Generator(*options.seed) : Generator()};
}

std::vector<std::int64_t> draw_tokens(const std::function<Tensor()>& logits,
                                      const std::function<void(const Tensor&)>& accept,
                                      const GenerateOptions& options) {
  check_options(options);
  const SampleOptions sampling = sample_options(options);
  const NoGrad no_grad;
  std::vector<Tensor> made;
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const Tensor next = sample_tokens(logits(), sampling);
    accept(next);
    made.push_back(next);
    submit(next.device());
    // If the host does not read the tokens, the device runs ahead.
    if (!options.stop && !options.on_token) continue;
    const auto id = next.item<std::int64_t>();
    const bool goes_on = !options.on_token || options.on_token({.id = id});
    if (!goes_on || id == options.stop) break;
  }
  std::vector<std::int64_t> ids;
  for (const Tensor& token : made) ids.push_back(token.item<std::int64_t>());
  return ids;
}

std::string detail::take_characters(std::string& bytes) {
  // An incomplete last character begins at most three bytes before the end.
  std::size_t begun = 0;
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xC0u) == 0x80u) continue;  // a continuation byte
    const std::size_t size = byte >= 0xF0 && byte <= 0xF4   ? 4
                             : byte >= 0xE0 && byte <= 0xEF ? 3
                             : byte >= 0xC2 && byte <= 0xDF ? 2
                                                            : 1;
    if (size > back) begun = back;
    break;
  }
  std::string whole = bytes.substr(0, bytes.size() - begun);
  bytes.erase(0, whole.size());
  return whole;
}

Tensor detail::one_row(const std::vector<std::int64_t>& prompt, Device device) {
  check_prompt(prompt);
  return from_vector(prompt, {1, static_cast<std::int64_t>(prompt.size())}, {.device = device});
}

std::vector<std::int64_t> continue_tokens(const std::function<Tensor(const Tensor&)>& logits_of,
                                          const std::vector<std::int64_t>& prompt, Device device,
                                          const GenerateOptions& options) {
  check_options(options);
  check_prompt(prompt);
  const auto given = static_cast<std::int64_t>(prompt.size());
  const std::int64_t size = std::min(options.context, given + options.tokens);
  std::int64_t length = std::min(given, size);
  std::vector<std::int64_t> start(prompt.end() - length, prompt.end());
  start.resize(static_cast<std::size_t>(size), 0);
  const NoGrad no_grad;
  Tensor window = detail::one_row(start, device);
  const auto logits_after = [&] {
    const Tensor logits = logits_of(window);
    if (logits.rank() != 3 || logits.size(0) != 1 || logits.size(1) != size) {
      throw ShapeError(fmt::format("generate: the model made {} of ids {}, expected [1, {}, vocab]",
                                   to_string(logits.shape()), to_string(window.shape()), size));
    }
    const Tensor last = full({1}, length - 1, {.dtype = DType::i64, .device = device});
    return index_select(logits, 1, last).squeeze(1);
  };
  const auto accept = [&](const Tensor& next) {
    if (length < size) {
      window.index({Slice{}, length++}) = next;
    } else {
      window = concat({window.narrow(1, 1, size - 1), next.unsqueeze(1)}, 1);
    }
  };
  std::vector<std::int64_t> ids = prompt;
  const std::vector<std::int64_t> made = draw_tokens(logits_after, accept, options);
  ids.insert(ids.end(), made.begin(), made.end());
  return ids;
}

}  // namespace text
}  // namespace volta
