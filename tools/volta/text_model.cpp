#include "text_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

#include "volta/autograd.h"
#include "volta/detail/utf8.h"
#include "volta/error.h"

namespace volta::cli {
namespace {

class CharCodec : public Codec {
 public:
  explicit CharCodec(data::CharCorpus corpus) : corpus_(std::move(corpus)) {}

  std::vector<std::int64_t> encode(const std::string& text) const override {
    if (const std::vector<std::string> unknown = unknown_in(text); !unknown.empty()) {
      throw ArgumentError(fmt::format(
          "the text that the model learned from has no {}, which the prompt has: leave {} out",
          fmt::join(unknown, " "), unknown.size() == 1 ? "it" : "them"));
    }
    return corpus_.encode(text);
  }
  std::string decode(std::int64_t token) const override { return corpus_.decode({&token, 1}); }
  std::int64_t start() const override {
    // A text starts like a new line.
    const std::size_t line = corpus_.characters().find('\n');
    return line == std::string::npos ? 0 : static_cast<std::int64_t>(line);
  }

 private:
  // Returns the unknown characters, quoted, each once.
  std::vector<std::string> unknown_in(std::string_view text) const {
    std::vector<std::string> unknown;
    while (!text.empty()) {
      const std::size_t bytes = std::max<std::size_t>(detail::first_character(text).bytes, 1);
      const std::string_view character = text.substr(0, bytes);
      const bool known = std::ranges::all_of(character, [&](char byte) {
        return corpus_.characters().find(byte) != std::string::npos;
      });
      std::string quoted = fmt::format("'{}'", character);
      if (!known && std::ranges::find(unknown, quoted) == unknown.end())
        unknown.push_back(std::move(quoted));
      text.remove_prefix(bytes);
    }
    return unknown;
  }

  data::CharCorpus corpus_;
};

class BpeCodec : public Codec {
 public:
  explicit BpeCodec(text::BPETokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  std::vector<std::int64_t> encode(const std::string& text) const override {
    return tokenizer_.encode(text);
  }
  std::string decode(std::int64_t token) const override { return tokenizer_.decode({&token, 1}); }
  std::int64_t start() const override { return end().value_or(0); }
  std::optional<std::int64_t> end() const override { return tokenizer_.id_of("<|endoftext|>"); }

 private:
  text::BPETokenizer tokenizer_;
};

class CachedGpt2 : public Decoder {
 public:
  explicit CachedGpt2(models::GPT2 model) : model_(std::move(model)) { model_.eval(); }

  nn::Module& model() override { return model_; }
  Tensor feed(const Tensor& ids) override { return model_.step(ids, *cache_); }
  void forget(std::int64_t expected) override {
    // The capacity is rounded up, so that prompts of similar lengths reuse the same plans.
    constexpr std::int64_t kUnit = 128;
    const std::int64_t wanted = std::min(model_.config().n_positions,
                                         (std::max(expected, kUnit) + kUnit - 1) / kUnit * kUnit);
    if (cache_ && cache_->capacity() >= wanted) {
      cache_->reset();
    } else {
      cache_.emplace(model_.make_cache(1, wanted));
    }
  }
  std::int64_t room() const override { return cache_->capacity() - cache_->length(); }

 private:
  models::GPT2 model_;
  std::optional<nn::KVCache> cache_;
};

class StatefulLstm : public Decoder {
 public:
  explicit StatefulLstm(models::CharLSTM model) : model_(std::move(model)) { model_.eval(); }

  nn::Module& model() override { return model_; }
  Tensor feed(const Tensor& ids) override {
    const NoGrad no_grad;
    auto [logits, state] = model_(ids, state_);
    state_ = state;
    return logits.narrow(1, ids.size(1) - 1, 1).squeeze(1);
  }
  void forget(std::int64_t /*expected*/) override { state_ = {}; }
  std::int64_t room() const override { return std::numeric_limits<std::int64_t>::max(); }

 private:
  models::CharLSTM model_;
  nn::LSTMState state_;
};

}  // namespace

std::unique_ptr<Codec> make_codec(data::CharCorpus corpus) {
  return std::make_unique<CharCodec>(std::move(corpus));
}
std::unique_ptr<Codec> make_codec(text::BPETokenizer tokenizer) {
  return std::make_unique<BpeCodec>(std::move(tokenizer));
}
std::unique_ptr<Decoder> make_decoder(models::GPT2 model) {
  return std::make_unique<CachedGpt2>(std::move(model));
}
std::unique_ptr<Decoder> make_decoder(models::CharLSTM model) {
  return std::make_unique<StatefulLstm>(std::move(model));
}

}  // namespace volta::cli
