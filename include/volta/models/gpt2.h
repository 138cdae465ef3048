// GPT-2 in Hugging Face's layout: it reads Hugging Face's files and writes files that can be read
// there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "volta/nn/dropout.h"
#include "volta/nn/embedding.h"
#include "volta/nn/kv_cache.h"
#include "volta/nn/layer_norm.h"
#include "volta/nn/linear.h"
#include "volta/nn/module.h"
#include "volta/nn/sequential.h"
#include "volta/nn/transformer.h"
#include "volta/text/generate.h"

namespace volta::models {

// The names are those of config.json.
struct GPT2Config {
  std::int64_t vocab_size = 50257;
  std::int64_t n_positions = 1024;
  std::int64_t n_embd = 768;
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::int64_t n_inner = 0;  // size of the hidden layer; 0 for 4 n_embd
  nn::TransformerActivation activation = nn::TransformerActivation::gelu_tanh;
  double resid_pdrop = 0.1, embd_pdrop = 0.1, attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;

  // Larger sizes are refused before anything is allocated.
  static constexpr std::int64_t kMaxVocab = 1 << 24, kMaxPositions = 1 << 24, kMaxWidth = 1 << 18,
                                kMaxLayers = 10'000;

  static GPT2Config small() { return {}; }  // 124 million parameters
  static GPT2Config medium() { return {.n_embd = 1024, .n_layer = 24, .n_head = 16}; }
  static GPT2Config large() { return {.n_embd = 1280, .n_layer = 36, .n_head = 20}; }
  static GPT2Config xl() { return {.n_embd = 1600, .n_layer = 48, .n_head = 25}; }
};
// Reads a config.json of at most 1 MiB. Throws IoError if the model is not GPT-2, computes in an
// unsupported way, or has invalid sizes.
VOLTA_API GPT2Config read_gpt2_config(const std::string& path);

struct GPT2Options {
  DType dtype = DType::f32;
  std::optional<Device> device = std::nullopt;  // default: where new tensors are created
};

// A linear layer whose weight is [in, out].
class VOLTA_API Conv1D : public nn::Module {
 public:
  Conv1D(std::int64_t inputs, std::int64_t outputs, double deviation, GPT2Options options);
  Tensor forward(const Tensor& x) override;

  nn::Parameter weight, bias;
};

class VOLTA_API GPT2Attention : public nn::Module {
 public:
  GPT2Attention(const GPT2Config& config, GPT2Options options);
  Tensor forward(const Tensor& x) override;
  // Attention for tokens that follow those in the cache.
  Tensor operator()(const Tensor& x, nn::KVCache& cache, std::size_t layer,
                    SourceLocation place = SourceLocation::here());
  using nn::Module::operator();

  Conv1D c_attn, c_proj;
  nn::Dropout resid_dropout;

 private:
  struct Heads;
  Heads heads_of(const Tensor& x);
  Tensor joined(const Tensor& heads);

  std::int64_t heads_;
  double attn_pdrop_;
};

class VOLTA_API GPT2MLP : public nn::Module {
 public:
  GPT2MLP(const GPT2Config& config, GPT2Options options);
  Tensor forward(const Tensor& x) override;

  Conv1D c_fc, c_proj;
  nn::Dropout dropout;

 private:
  nn::TransformerActivation activation_;
};

class VOLTA_API GPT2Block : public nn::Module {
 public:
  GPT2Block(const GPT2Config& config, GPT2Options options);
  Tensor forward(const Tensor& x) override;
  Tensor operator()(const Tensor& x, nn::KVCache& cache, std::size_t layer,
                    SourceLocation place = SourceLocation::here());
  using nn::Module::operator();

  nn::LayerNorm ln_1;
  GPT2Attention attn;
  nn::LayerNorm ln_2;
  GPT2MLP mlp;
};

class VOLTA_API GPT2Transformer : public nn::Module {
 public:
  GPT2Transformer(const GPT2Config& config, GPT2Options options);
  Tensor forward(const Tensor& ids) override;  // [batch, length] -> [batch, length, n_embd]
  Tensor operator()(const Tensor& ids, nn::KVCache& cache,
                    SourceLocation place = SourceLocation::here());
  using nn::Module::operator();

  nn::Embedding wte, wpe;
  nn::Dropout drop;
  nn::ModuleList<GPT2Block> h;
  nn::LayerNorm ln_f;

 private:
  Tensor embedded(const Tensor& ids, std::int64_t first);
};

// The GPT-2 language model. Its state dict has Hugging Face's keys and shapes.
class VOLTA_API GPT2 : public nn::Module {
 public:
  // Weights start normal with deviation initializer_range; those of projections back into the
  // residual stream are divided by sqrt(2 n_layer).
  explicit GPT2(const GPT2Config& config = {}, GPT2Options options = {});
  // Loads from a folder with config.json and a weights file that load() finds (model.safetensors,
  // pytorch_model.bin), or from the path of the weights file. The model is in eval mode.
  static GPT2 from_pretrained(const std::string& path, GPT2Options options = {});
  // Keys may begin with "transformer."; masks (attn.bias, attn.masked_bias) are ignored; a tied
  // lm_head uses wte, whatever the state contains. Otherwise it is as strict as load_state_dict.
  void load_pretrained(const StateDict& state);

  Tensor forward(const Tensor& ids) override;  // [batch, length] -> logits [batch, length, vocab]

  // ---- Generation token by token.
  // Makes a cache for `capacity` tokens; 0 stands for the model's number of positions.
  nn::KVCache make_cache(std::int64_t batch = 1, std::int64_t capacity = 0) const;
  // Returns the logits [batch, vocab] of the token after ids [batch, length]. The ids follow the
  // tokens in the cache and are added to it. No gradients are recorded.
  Tensor step(const Tensor& ids, nn::KVCache& cache);
  // Returns ids [batch, length] followed by new tokens: [batch, length + tokens]. The result is
  // shorter if all rows have reached the stop token, which also fills rows that reached it earlier.
  Tensor generate(const Tensor& ids, const GenerateOptions& options = {});

  const GPT2Config& config() const { return config_; }

  GPT2Transformer transformer;
  nn::Linear lm_head;

 private:
  GPT2Config config_;
};

}  // namespace volta::models
