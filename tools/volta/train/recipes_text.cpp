// Recipes for language models.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"
#include "output/utf8.h"
#include "train/recipe.h"
#include "volta/detail/utf8.h"
#include "volta/error.h"
#include "volta/models.h"
#include "volta/text/tokenizer.h"

namespace volta::cli {
namespace {

data::CharCorpus corpus_of(const Settings& settings) {
  const std::string& path = settings.text("data");
  return path.empty() ? data::CharCorpus::from_text(data::embedded_text())
                      : data::CharCorpus::from_file(path);
}

// The alphabet in a run's configuration is a corpus that can encode text.
data::CharCorpus alphabet_of(const Settings& settings, const Json& config) {
  const auto found = config.find("alphabet");
  if (found == config.end() || !found->is_string()) return corpus_of(settings);
  return data::CharCorpus::from_text(characters_as_bytes(found->get<std::string>()));
}

std::string whole_text(const data::CharCorpus& corpus) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(corpus.size()));
  for (std::int64_t i = 0; i < corpus.size(); ++i)
    ids[static_cast<std::size_t>(i)] = corpus.tokens()[i];
  return corpus.decode(ids);
}

struct Characters {
  data::CharCorpus alphabet;
  data::Tokens tokens;  // the encoded text
};

[[noreturn]] void refuse_others(const std::string& known, const std::string& text,
                                const std::string& path) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> others;
  bool more = false;
  for (std::string_view rest = text; !rest.empty() && !more;) {
    const std::size_t bytes = std::max<std::size_t>(detail::first_character(rest).bytes, 1);
    const std::string_view character = rest.substr(0, bytes);
    const bool is_other = character.find_first_not_of(known) != std::string_view::npos;
    std::string quoted = fmt::format("'{}'", character);
    if (is_other && std::ranges::find(others, quoted) == others.end()) {
      more = others.size() == kShown;
      if (!more) others.push_back(std::move(quoted));
    }
    rest.remove_prefix(bytes);
  }
  throw ArgumentError(
      fmt::format("{} has {}{}, and the text that the model learned from does not: take {} out",
                  path.empty() ? "the embedded text" : path, fmt::join(others, " "),
                  more ? " and more" : "", others.size() == 1 && !more ? "it" : "them"));
}

// An existing model keeps its alphabet, even if the current text lacks some characters.
Characters characters_of(const Settings& settings, const Json& config) {
  data::CharCorpus corpus = corpus_of(settings);
  data::CharCorpus alphabet = config.contains("alphabet") ? alphabet_of(settings, config) : corpus;
  if (alphabet.characters() == corpus.characters()) return {corpus, corpus.tokens()};
  const std::string text = whole_text(corpus);
  if (corpus.characters().find_first_not_of(alphabet.characters()) != std::string::npos)
    refuse_others(alphabet.characters(), text, settings.text("data"));
  data::Tokens tokens = data::Tokens::from_values(alphabet.encode(text));
  return {std::move(alphabet), std::move(tokens)};
}

// The part of the prompt that can be encoded and is shorter than a window; never empty.
template <class Codec>
std::string usable_prompt(const Codec& codec, std::string prompt, std::int64_t length) {
  if constexpr (requires { codec.characters(); }) {
    const std::string& known = codec.characters();
    std::erase_if(prompt, [&](char c) { return known.find(c) == std::string::npos; });
    if (prompt.empty()) prompt = known.substr(0, 1);
  } else if (prompt.empty()) {
    prompt = "\n";
  }
  while (prompt.size() > 1 && static_cast<std::int64_t>(codec.encode(prompt).size()) >= length)
    prompt.resize(prompt.size() / 2);
  return prompt;
}

// A model of the next token, trained on windows of a text whose last tenth is held out.
template <class Model, class Codec>
class Language : public Task {
 public:
  Language(Model model, Codec codec, const data::Tokens& tokens, const Settings& settings,
           Device device)
      : model_(std::move(model)),
        codec_(std::move(codec)),
        length_(settings.integer("length")),
        prompt_(usable_prompt(codec_, settings.text("prompt"), length_)),
        device_(device),
        train_(checked(tokens.slice(0, tokens.size() * 9 / 10), length_)),
        test_(checked(tokens.slice(tokens.size() * 9 / 10, tokens.size()), length_)),
        loader_(train_.windows(length_, std::max<std::int64_t>(1, length_ / 2)),
                {.batch_size = settings.integer("batch"),
                 .shuffle = true,
                 .workers = static_cast<int>(settings.integer("workers")),
                 .device = device,
                 .seed = static_cast<std::uint64_t>(settings.integer("seed"))}) {
    model_.to(device);
  }

  nn::Module& model() override { return model_; }
  data::DataLoader& loader() override { return loader_; }
  Tensor loss(const data::Batch& batch) override {
    return cross_entropy(model_(batch.x).flatten(0, 1), batch.y.flatten());
  }

  Evaluation evaluate(const EvaluateOptions& options) override {
    NoGrad no_grad;
    model_.eval();
    data::DataLoader checks(
        test_.windows(length_),
        {.batch_size = options.batch > 0 ? options.batch : 32, .device = device_});
    double sum = 0;
    std::int64_t seen = 0;
    for (const auto& [x, y] : checks) {
      sum +=
          cross_entropy(model_(x).flatten(0, 1), y.flatten(), {.reduction = Reduction::sum}).item();
      seen += y.numel();
    }
    const double loss = sum / static_cast<double>(seen);
    Evaluation result;
    result.larger_is_better = false;
    result.metrics = {{"validation loss", loss}, {"perplexity", std::exp(loss)}};
    if (options.samples) {
      // Models with positions have as many positions as a window has tokens.
      const auto begun = static_cast<std::int64_t>(codec_.encode(prompt_).size());
      const std::string text = generate(model_, codec_,
                                        {.prompt = prompt_,
                                         .tokens = std::max<std::int64_t>(1, length_ - begun),
                                         .temperature = 0.8,
                                         .seed = 1,
                                         .context = length_});
      result.texts = {{prompt_, text.substr(std::min(prompt_.size(), text.size()))}};
    }
    model_.train();
    return result;
  }

  nn::Summary summary() override { return model_.summary({1, length_}, {.dtype = DType::i64}); }
  const char* unit() const override { return "tokens"; }
  std::int64_t units(const data::Batch& batch) const override { return batch.x.numel(); }
  Json details() const override {
    if constexpr (requires { codec_.characters(); }) {
      return {{"alphabet", bytes_as_characters(codec_.characters())}};
    } else {
      return Json::object();
    }
  }

 private:
  static data::Tokens checked(data::Tokens tokens, std::int64_t length) {
    if (tokens.size() > length) return tokens;
    throw UsageError(fmt::format(
        "the text is too short: a part of {} tokens has no window of {}; set length=... lower, or "
        "give more text",
        tokens.size(), length));
  }

  Model model_;
  Codec codec_;
  std::int64_t length_;
  std::string prompt_;
  Device device_;
  data::Tokens train_, test_;
  data::DataLoader loader_;
};

models::GPT2 char_gpt(std::int64_t vocab, const Settings& settings) {
  models::GPT2Config config;
  config.vocab_size = vocab;
  config.n_positions = settings.integer("length");
  config.n_embd = settings.integer("width");
  config.n_layer = settings.integer("layers");
  config.n_head = settings.integer("heads");
  const double dropout = settings.number("dropout");
  config.embd_pdrop = config.attn_pdrop = config.resid_pdrop = dropout;
  return models::GPT2(config);
}

models::CharLSTM char_lstm(std::int64_t vocab, const Settings& settings) {
  return models::CharLSTM(vocab, {.hidden = settings.integer("width"),
                                  .layers = settings.integer("layers"),
                                  .dropout = settings.number("dropout")});
}

// For a recipe whose model depends on an alphabet: makes its task, or the model alone.
template <auto kMake>
std::unique_ptr<Task> char_task(const Settings& settings, const Json& config, Device device) {
  const Characters text = characters_of(settings, config);
  auto model = kMake(text.alphabet.vocab_size(), settings);
  return std::make_unique<Language<decltype(model), data::CharCorpus>>(
      std::move(model), text.alphabet, text.tokens, settings, device);
}
template <auto kMake>
TextModel char_model(const Settings& settings, const Json& config, Device device) {
  const data::CharCorpus alphabet = alphabet_of(settings, config);
  auto model = kMake(alphabet.vocab_size(), settings);
  model.to(device);
  return {make_codec(alphabet), make_decoder(std::move(model))};
}

const std::string& pretrained_folder(const Settings& settings) {
  const std::string& folder = settings.text("model");
  if (folder.empty())
    throw UsageError("gpt2 needs --set model=FOLDER, a checkpoint in Hugging Face's layout");
  return folder;
}

std::vector<Setting> text_settings(const std::vector<Setting>& more) {
  using enum Setting::Kind;
  std::vector<Setting> settings = {
      {"steps", integer, "2000", "updates; 0: as many as the epochs have", 0, kMaxUpdates},
      {"batch", integer, "32", "windows of an update", 1, kMaxBatch},
      {"evaluate_every", integer, "250", "updates between evaluations; 0: after every epoch", 0,
       kMaxUpdates},
      {"length", integer, "128", "tokens of a window", 2, kMaxLength},
      {"prompt", text, "The ", "what the sample in the report begins with"},
      {"dropout", number, "0.1", "the share of values that are left out in training", 0, 1}};
  merge(settings, more);
  return settings;
}

}  // namespace

std::vector<Recipe> text_recipes() {
  using enum Setting::Kind;
  return {
      {"char-gpt",
       "a transformer that writes text character by character: --data names a text file",
       text_settings(
           {{"width", integer, "192", "of the model", 1, kMaxWidth},
            {"layers", integer, "4", "blocks", 1, kMaxLayers},
            {"heads", integer, "6", "of attention; they divide the width", 1, kMaxWidth}}),
       char_task<char_gpt>, char_model<char_gpt>},
      {"char-lstm",
       "a recurrent network that writes text character by character: --data names a text file",
       text_settings({{"lr", number, "0.002", "the highest learning rate", 0},
                      {"width", integer, "256", "of the hidden state", 1, kMaxWidth},
                      {"layers", integer, "2", "LSTMs on top of each other", 1, kMaxLayers}}),
       char_task<char_lstm>, char_model<char_lstm>},
      {"gpt2", "GPT-2 from a folder in Hugging Face's layout, trained on: --data names a text file",
       text_settings(
           {{"model", text, "", "the folder with config.json, weights and tokenizer"},
            {"steps", integer, "200", "updates; 0: as many as the epochs have", 0, kMaxUpdates},
            {"batch", integer, "4", "windows of an update", 1, kMaxBatch},
            {"lr", number, "0.00005", "the highest learning rate", 0},
            {"evaluate_every", integer, "50", "updates between evaluations", 0, kMaxUpdates}}),
       [](const Settings& settings, const Json& /*config*/,
          Device device) -> std::unique_ptr<Task> {
         const std::string& folder = pretrained_folder(settings);
         auto codec = text::BPETokenizer::from_pretrained(folder);
         models::GPT2 model = models::GPT2::from_pretrained(folder, {.device = device});
         if (model.config().n_positions < settings.integer("length")) {
           throw UsageError(
               fmt::format("windows of {} tokens are longer than the {} positions of "
                           "{}: set length lower",
                           settings.integer("length"), model.config().n_positions, folder));
         }
         const std::vector<std::int64_t> ids = codec.encode(whole_text(corpus_of(settings)));
         return std::make_unique<Language<models::GPT2, text::BPETokenizer>>(
             std::move(model), std::move(codec), data::Tokens::from_values(ids), settings, device);
       },
       [](const Settings& settings, const Json& /*config*/, Device device) -> TextModel {
         const std::string& folder = pretrained_folder(settings);
         auto codec = text::BPETokenizer::from_pretrained(folder);
         models::GPT2 model(models::read_gpt2_config(folder + "/config.json"), {.device = device});
         return {make_codec(std::move(codec)), make_decoder(std::move(model))};
       }},
  };
}

}  // namespace volta::cli
