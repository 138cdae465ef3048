// Hugging Face's files of GPT-2: config.json, and the keys of its weights.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "io/json.h"
#include "io/shards.h"
#include "platform/files.h"
#include "volta/error.h"
#include "volta/models/gpt2.h"

namespace volta::models {
namespace {

namespace fs = std::filesystem;
using io::JsonValue;
using nn::TransformerActivation;

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& path)
      : path_(path), root_(io::parse_json(platform::read_file(path), path)) {
    if (root_.as_object() == nullptr) fail("the configuration is no JSON object");
  }

  GPT2Config read() const {
    if (const std::string* type = text("model_type"); type != nullptr && *type != "gpt2")
      fail(fmt::format("\"model_type\" is {}, expected \"gpt2\"", io::json_quoted(*type)));
    for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
      expect(key, false);
    expect("scale_attn_weights", true);
    GPT2Config config;
    for (const auto& [key, target] : {std::pair{"vocab_size", &config.vocab_size},
                                      {"n_positions", &config.n_positions},
                                      {"n_embd", &config.n_embd},
                                      {"n_layer", &config.n_layer},
                                      {"n_head", &config.n_head},
                                      {"n_inner", &config.n_inner}})
      size(key, *target);
    for (const auto& [key, target] : {std::pair{"resid_pdrop", &config.resid_pdrop},
                                      {"embd_pdrop", &config.embd_pdrop},
                                      {"attn_pdrop", &config.attn_pdrop},
                                      {"layer_norm_epsilon", &config.layer_norm_epsilon},
                                      {"initializer_range", &config.initializer_range}})
      number(key, *target);
    if (const bool* tied = flag("tie_word_embeddings")) config.tie_word_embeddings = *tied;
    if (const std::string* name = text("activation_function"))
      config.activation = activation(*name);
    return config;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw IoError(fmt::format("{}: {}", path_, problem));
  }
  // Null where there is none, or it is null.
  const JsonValue* find(std::string_view key) const {
    for (const io::JsonMember& member : *root_.as_object()) {
      if (member.key == key)
        return std::holds_alternative<JsonValue::Null>(member.value.value) ? nullptr
                                                                           : &member.value;
    }
    return nullptr;
  }
  const std::string* text(std::string_view key) const {
    const JsonValue* value = find(key);
    if (value != nullptr && value->as_string() == nullptr)
      fail(fmt::format("\"{}\" is no string", key));
    return value != nullptr ? value->as_string() : nullptr;
  }
  const bool* flag(std::string_view key) const {
    const JsonValue* value = find(key);
    const bool* found = value != nullptr ? std::get_if<bool>(&value->value) : nullptr;
    if (value != nullptr && found == nullptr)
      fail(fmt::format("\"{}\" is neither true nor false", key));
    return found;
  }
  void expect(std::string_view key, bool wanted) const {
    if (const bool* found = flag(key); found != nullptr && *found != wanted)
      fail(fmt::format("\"{}\": {} is not supported", key, *found));
  }
  void size(std::string_view key, std::int64_t& target) const {
    const JsonValue* value = find(key);
    if (value == nullptr) return;
    const std::optional<std::int64_t> found = value->as_integer();
    if (!found || *found < 1 || *found > (std::int64_t{1} << 32))
      fail(fmt::format("\"{}\" is no size", key));
    target = *found;
  }
  void number(std::string_view key, double& target) const {
    const JsonValue* value = find(key);
    if (value == nullptr) return;
    const auto* found = std::get_if<JsonValue::Number>(&value->value);
    if (found == nullptr) fail(fmt::format("\"{}\" is no number", key));
    std::from_chars(found->text.data(), found->text.data() + found->text.size(), target);
  }
  TransformerActivation activation(const std::string& name) const {
    if (name == "gelu_new" || name == "gelu_pytorch_tanh") return TransformerActivation::gelu_tanh;
    if (name == "gelu") return TransformerActivation::gelu;
    if (name == "relu") return TransformerActivation::relu;
    if (name == "silu" || name == "swish") return TransformerActivation::silu;
    fail(fmt::format("\"activation_function\": {} is not supported", io::json_quoted(name)));
  }

  std::string path_;
  JsonValue root_;
};

// The causal masks that older files have among their weights.
bool is_mask(std::string_view key) {
  return key.ends_with(".attn.bias") || key.ends_with(".attn.masked_bias");
}

}  // namespace

GPT2Config read_gpt2_config(const std::string& path) { return ConfigFile(path).read(); }

GPT2 GPT2::from_pretrained(const std::string& path, GPT2Options options) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw IoError(fmt::format(
        "GPT2::from_pretrained: {}: there is no such file or folder; expected is a folder with "
        "config.json and the weights, or a file of weights beside config.json",
        path));
  }
  const fs::path weights = io::resolve_model_path(path);
  GPT2 model(read_gpt2_config((weights.parent_path() / "config.json").string()), options);
  const StateDict state =
      load(weights.string(), {.device = options.device.value_or(model.device())});
  model.load_pretrained(state);
  model.eval();
  return model;
}

void GPT2::load_pretrained(const StateDict& state) {
  constexpr std::string_view kPrefix = "transformer.", kHead = "lm_head.weight";
  StateDict renamed;
  for (const auto& [key, value] : state) {
    if (is_mask(key) || (config_.tie_word_embeddings && key == kHead)) continue;
    const bool whole = key.starts_with(kPrefix) || key == kHead;
    renamed.add(whole ? key : std::string(kPrefix) + key, value);
  }
  const Tensor* words = renamed.find("transformer.wte.weight");
  if (config_.tie_word_embeddings && words != nullptr) renamed.add(std::string(kHead), *words);
  load_state_dict(renamed);
}

}  // namespace volta::models
