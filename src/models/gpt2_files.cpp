// Reads Hugging Face's files of GPT-2: config.json and the keys of its weights.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "encoding/json.h"
#include "io/safetensors/shards.h"
#include "platform/files.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/models/gpt2.h"

namespace volta::models {
namespace {

namespace fs = std::filesystem;
using io::JsonReader;
using nn::TransformerActivation;

constexpr std::uint64_t kMaxConfigBytes = 1 << 20;

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& path)
      : path_(path), text_(platform::read_file(path, kMaxConfigBytes)) {
    JsonReader reader(text_, path_);
    if (reader.kind() != JsonReader::Kind::object) fail("the configuration is no JSON object");
    reader.begin_object();
    while (const auto next = reader.next_key()) {
      std::string key(*next);
      members_.emplace(std::move(key), reader.skip());
    }
    reader.finish();
  }

  GPT2Config read() const {
    if (const auto type = text("model_type"); type && *type != "gpt2")
      fail(fmt::format("\"model_type\" is {}, expected \"gpt2\"", io::json_excerpt(*type)));
    for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"})
      expect(key, false);
    expect("scale_attn_weights", true);
    GPT2Config config;
    for (const auto& [key, target, most] :
         {std::tuple{"vocab_size", &config.vocab_size, GPT2Config::kMaxVocab},
          {"n_positions", &config.n_positions, GPT2Config::kMaxPositions},
          {"n_embd", &config.n_embd, GPT2Config::kMaxWidth},
          {"n_layer", &config.n_layer, GPT2Config::kMaxLayers},
          {"n_head", &config.n_head, GPT2Config::kMaxWidth},
          {"n_inner", &config.n_inner, GPT2Config::kMaxWidth}})
      size(key, *target, most);
    constexpr double kAny = std::numeric_limits<double>::max();
    for (const auto& [key, target, most] :
         {std::tuple{"resid_pdrop", &config.resid_pdrop, 1.0},
          {"embd_pdrop", &config.embd_pdrop, 1.0},
          {"attn_pdrop", &config.attn_pdrop, 1.0},
          {"layer_norm_epsilon", &config.layer_norm_epsilon, kAny},
          {"initializer_range", &config.initializer_range, kAny}})
      number(key, *target, most);
    if (const auto tied = flag("tie_word_embeddings")) config.tie_word_embeddings = *tied;
    if (const auto name = text("activation_function")) config.activation = activation(*name);
    return config;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw IoError(fmt::format("{}: {}", path_, problem));
  }
  // Returns null if the member is absent or null.
  const JsonReader::Raw* find(std::string_view key) const {
    const auto found = members_.find(key);
    return found == members_.end() || found->second.text == "null" ? nullptr : &found->second;
  }
  std::optional<std::string> text(std::string_view key) const {
    const JsonReader::Raw* value = find(key);
    if (value == nullptr) return std::nullopt;
    JsonReader reader(value->text, path_, value->at);
    if (reader.kind() != JsonReader::Kind::string) fail(fmt::format("\"{}\" is no string", key));
    return std::string(reader.string());
  }
  std::optional<bool> flag(std::string_view key) const {
    const JsonReader::Raw* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->text != "true" && value->text != "false")
      fail(fmt::format("\"{}\" is neither true nor false", key));
    return value->text == "true";
  }
  void expect(std::string_view key, bool wanted) const {
    if (const auto found = flag(key); found && *found != wanted)
      fail(fmt::format("\"{}\": {} is not supported", key, *found));
  }
  void size(std::string_view key, std::int64_t& target, std::int64_t most) const {
    const JsonReader::Raw* value = find(key);
    if (value == nullptr) return;
    const std::optional<std::int64_t> found = io::integer_of(value->text);
    if (!found || *found < 1 || *found > most)
      fail(fmt::format("\"{}\" is no size: {}, expected is an integer from 1 to {}", key,
                       io::json_excerpt(value->text), most));
    target = *found;
  }
  // A number that is no double, such as 1e400, is refused like any other outside of the range.
  void number(std::string_view key, double& target, double most) const {
    const JsonReader::Raw* value = find(key);
    if (value == nullptr) return;
    const char *begin = value->text.data(), *end = begin + value->text.size();
    const auto [stop, failure] = std::from_chars(begin, end, target);
    if (stop != end || failure == std::errc::invalid_argument)
      fail(fmt::format("\"{}\" is no number", key));
    if (failure == std::errc() && target >= 0 && target <= most) return;
    fail(fmt::format("\"{}\" is {}, expected is a number from 0 to {:.4g}", key,
                     io::json_excerpt(value->text), most));
  }
  TransformerActivation activation(const std::string& name) const {
    if (name == "gelu_new" || name == "gelu_pytorch_tanh") return TransformerActivation::gelu_tanh;
    if (name == "gelu") return TransformerActivation::gelu;
    if (name == "relu") return TransformerActivation::relu;
    if (name == "silu" || name == "swish") return TransformerActivation::silu;
    fail(fmt::format("\"activation_function\": {} is not supported", io::json_excerpt(name)));
  }

  std::string path_, text_;
  std::map<std::string, JsonReader::Raw, std::less<>> members_;
};

// Older files store the causal masks among the weights.
bool is_mask(std::string_view key) {
  return key.ends_with(".attn.bias") || key.ends_with(".attn.masked_bias");
}

// Refuses a configuration larger than the weights, before a model of that size is allocated.
void refuse_larger(const GPT2Config& config, const std::string& config_path, const StateDict& state,
                   const std::string& weights_path) {
  double elements = 0;
  for (const auto& [key, value] : state) elements += static_cast<double>(value.numel());
  const auto [vocab, positions, width, layers] =
      std::tuple{static_cast<double>(config.vocab_size), static_cast<double>(config.n_positions),
                 static_cast<double>(config.n_embd), static_cast<double>(config.n_layer)};
  const double inner = config.n_inner != 0 ? static_cast<double>(config.n_inner) : 4 * width;
  const double matrices = width * (vocab + positions + layers * (4 * width + 2 * inner));
  if (matrices <= elements) return;
  throw IoError(fmt::format("{}: it describes a model of {:.4g} weights, and {} has {:.4g}",
                            config_path, matrices, weights_path, elements));
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
  const std::string config_path = (weights.parent_path() / "config.json").string();
  const GPT2Config config = read_gpt2_config(config_path);
  const Device device = options.device.value_or(zeros({1}).device());
  const StateDict state = load(weights.string(), {.device = device});
  refuse_larger(config, config_path, state, weights.string());
  GPT2 model(config, options);
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
