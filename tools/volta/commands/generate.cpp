// volta generate: prints text from a language model while it is generated.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "command.h"
#include "json_file.h"
#include "output/text_stream.h"
#include "output/units.h"
#include "stop_requests.h"
#include "text_model.h"
#include "train/recipe.h"
#include "train/run_config.h"
#include "train/run_folder.h"
#include "volta/autograd.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/text/generate.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxTokens = 1'000'000'000;
using Clock = std::chrono::steady_clock;

struct GenerateOptions {
  std::string folder, checkpoint = "best", device = "best", dtype = "f32";
  std::optional<std::string> prompt;
  std::vector<std::string> stops;
  std::optional<std::uint64_t> seed;
  std::int64_t tokens = 200, top_k = 0;
  double temperature = 0.8, top_p = 1;
};

struct Loaded {
  TextModel model;
  std::string prompt;  // used if none is given
};

// The config.json of a run has a recipe, that of Hugging Face has none.
bool is_run(const std::string& folder) {
  std::error_code ignored;
  if (!fs::exists(fs::path(folder) / "config.json", ignored)) {
    const bool model = fs::exists(fs::path(folder) / "model.safetensors", ignored);
    return !model;  // RunFolder finds it in runs/ or reports the problem
  }
  const Json json = read_json_file((fs::path(folder) / "config.json").string());
  return json.is_object() && json.contains("recipe");
}

Loaded loaded(const GenerateOptions& options, Device device) {
  if (is_run(options.folder)) {
    const RunFolder folder = RunFolder::open(options.folder);
    const RunConfig config = read_run(folder);
    if (!config.recipe.text) {
      throw ArgumentError(
          fmt::format("{} is a run of {}, which makes no text: volta eval looks "
                      "at it",
                      folder.path().string(), config.recipe.name));
    }
    const std::string file = checkpoint_file(folder, options.checkpoint);
    TextModel model = config.recipe.text(config.settings, config.json, device);
    load_weights(model.decoder->model(), file, config.recipe.name);
    return {std::move(model), config.settings.text("prompt")};
  }
  if (options.checkpoint != "best")
    throw UsageError("--checkpoint is for runs: this folder has one file of weights");
  auto codec = text::BPETokenizer::from_pretrained(options.folder);
  auto model = models::GPT2::from_pretrained(options.folder, {.device = device});
  return {{make_codec(std::move(codec)), make_decoder(std::move(model))}, ""};
}

std::string prompt_of(const GenerateOptions& options, const Loaded& what) {
  if (!options.prompt) {
    try {
      what.model.codec->encode(what.prompt);
      return what.prompt;
    } catch (const ArgumentError&) {  // the recipe's own prompt may not fit another text
      return {};
    }
  }
  if (*options.prompt != "-") return *options.prompt;
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (text.ends_with('\n')) text.pop_back();  // written by echo, or the end of the file's last line
  return text;
}

struct Result {
  std::size_t prompt_tokens = 0, tokens = 0;
  // Seconds from the start to the first, second and last token.
  double first_seconds = 0, second_seconds = 0, seconds = 0;
  const char* ended = "length";

  // The rate of the tokens after the second: the first waits for the prompt, and both for
  // compilers.
  std::optional<double> tokens_per_second() const {
    if (tokens < 3) return std::nullopt;
    return static_cast<double>(tokens - 2) / (seconds - second_seconds);
  }
};

class Writing {
 public:
  Writing(TextModel& model, const GenerateOptions& options, Device device, std::uint64_t seed)
      : model_(model), options_(options), device_(device), seed_(seed) {}

  Result write(const Context& context, const std::string& prompt, TextStream& stream) {
    ids_ = model_.codec->encode(prompt);
    stream.show(prompt);
    Result result{.prompt_tokens = ids_.size()};
    if (ids_.empty()) ids_.push_back(model_.codec->start());
    const NoGrad no_grad;
    const auto start = Clock::now();
    const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    const auto given = static_cast<std::int64_t>(ids_.size());
    model_.decoder->forget(given + options_.tokens);
    if (const std::int64_t room = model_.decoder->room(); given > room) {
      context.warn(fmt::format("the prompt has {} tokens, of which the model sees the last {}",
                               human_count(ids_.size()),
                               human_count(static_cast<std::uint64_t>(half(room)))));
    }
    const auto shown = [&](const GeneratedToken& token) {
      if (result.tokens == 0) result.first_seconds = passed();
      if (result.tokens == 1) result.second_seconds = passed();
      return show(token.id, stream, result);
    };
    if (StopRequests::stopped()) {
      result.ended = "interrupted";
    } else {
      text::draw_tokens([&] { return logits_after(next_); },
                        [&](const Tensor& next) { next_ = next; },
                        {.tokens = options_.tokens,
                         .temperature = options_.temperature,
                         .top_k = options_.top_k,
                         .top_p = options_.top_p,
                         .seed = seed_,
                         .on_token = shown});
    }
    result.seconds = passed();
    return result;
  }

 private:
  // Returns whether generation continues.
  bool show(std::int64_t token, TextStream& stream, Result& result) {
    if (token == model_.codec->end()) {
      result.ended = "end of text";
      return false;
    }
    ++result.tokens;
    ids_.push_back(token);
    if (!stream.add(model_.codec->decode(token))) {
      result.ended = "stop";
      return false;
    }
    const bool more = static_cast<std::int64_t>(result.tokens) < options_.tokens;
    if (more && StopRequests::stopped()) result.ended = "interrupted";
    return more && !StopRequests::stopped() && !stream.failed();
  }

  static std::int64_t half(std::int64_t room) { return std::max<std::int64_t>(1, room / 2); }

  Tensor ids_tensor(std::size_t last) const {
    const std::vector<std::int64_t> some(ids_.end() - static_cast<std::ptrdiff_t>(last),
                                         ids_.end());
    return from_vector(some, {1, static_cast<std::int64_t>(last)}, {.device = device_});
  }

  // When the model has used all its positions, it continues from the later half of the tokens.
  Tensor logits_after(const Tensor& next) {
    Decoder& decoder = *model_.decoder;
    std::size_t fresh = next.defined() ? 1 : ids_.size();
    if (static_cast<std::int64_t>(fresh) > decoder.room()) {
      decoder.forget(static_cast<std::int64_t>(ids_.size()));
      fresh = static_cast<std::size_t>(half(decoder.room()));
    } else if (next.defined()) {
      return decoder.feed(next.unsqueeze(1));
    }
    return decoder.feed(ids_tensor(fresh));
  }

  TextModel& model_;
  const GenerateOptions& options_;
  Device device_;
  std::uint64_t seed_;
  std::vector<std::int64_t> ids_;
  Tensor next_;  // the last token drawn
};

DType dtype_of(const std::string& name) {
  if (name == "bf16") return DType::bf16;
  return name == "f16" ? DType::f16 : DType::f32;
}

int run_generate(const Context& context, const GenerateOptions& options) {
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw UsageError(fmt::format("--top-p must be above 0 and at most 1, got {}", options.top_p));
  const std::uint64_t seed = options.seed ? *options.seed : std::random_device()();
  const Device device = Device::parse(options.device);
  Loaded what = loaded(options, device);
  what.model.decoder->model().to(dtype_of(options.dtype));
  const std::string prompt = prompt_of(options, what);

  const StopRequests requests;
  TextStream stream(context.json ? nullptr : &context.out, context.terminal, options.stops);
  const Result result = Writing(what.model, options, device, seed).write(context, prompt, stream);
  stream.finish();
  if (stream.failed()) return kSuccess;  // main() reports the reason and fails
  const bool stopped = std::string_view(result.ended) == "interrupted";
  const std::optional<double> rate = result.tokens_per_second();
  if (context.json) {
    context.print({{"model", options.folder},
                   {"device", to_string(device)},
                   {"seed", seed},
                   {"prompt", prompt},
                   {"text", stream.text()},
                   {"ended", result.ended},
                   {"prompt_tokens", result.prompt_tokens},
                   {"tokens", result.tokens},
                   {"seconds", result.seconds},
                   {"first_token_seconds", result.first_seconds},
                   {"tokens_per_second", rate ? Json(*rate) : Json()}});
  } else if (!context.quiet) {
    std::string line =
        fmt::format("{} in {:.2f} s", plural(result.tokens, "token"), result.seconds);
    if (rate) line += fmt::format(", {:.1f} a second", *rate);
    line += fmt::format(", on {}; seed {}", to_string(device), seed);
    context.err << line << '\n';
  }
  return stopped ? kStopped : kSuccess;
}

}  // namespace

void add_generate(CLI::App& app, Context& context) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = add_command(
      app, "generate", "Write text with a trained language model, token by token",
      "volta generate runs/char-gpt-20261116-091500 --prompt 'The '\n"
      "volta generate gpt2/ --prompt 'Once upon a time' --tokens 100 --top-k 40 --seed 1\n"
      "echo 'Dear Sir,' | volta generate gpt2/ --prompt - --temperature 0 --stop 'Yours'");
  command
      ->add_option(
          "FOLDER", options->folder,
          "The folder of a char-gpt, char-lstm or gpt2 run, its name in runs/, or a folder "
          "with a GPT-2 in Hugging Face's layout")
      ->required();
  command->add_option("--prompt", options->prompt,
                      "What the text begins with; - reads it from the standard input");
  command->add_option("--tokens", options->tokens, "At most so many; default 200")
      ->check(whole_number(1, kMaxTokens));
  command
      ->add_option("--temperature", options->temperature,
                   "Below 1 likelier, above more surprising; 0 always the likeliest; default 0.8")
      ->check(at_least(0));
  command->add_option("--top-k", options->top_k, "Only of so many likeliest tokens; 0: of all")
      ->check(whole_number(0, kMaxTokens));
  command
      ->add_option("--top-p", options->top_p,
                   "Only of the likeliest tokens that have this share together; default 1")
      ->check(at_least(0));
  command->add_option("--seed", options->seed, "The same gives the same text; default another")
      ->check(whole_number(0));
  command->add_option("--stop", options->stops, "End before this text; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "Of a run: best, last, or a file; default best")
      ->type_name("FILE");
  command->add_option("--device", options->device, "cpu, cuda:0, opencl:0, best");
  command->add_option("--dtype", options->dtype, "What the model computes in; default f32")
      ->check(one_of({"f32", "bf16", "f16"}));
  add_json(*command, context);
  add_quiet(*command, context);
  on_run(*command, context, [&context, options] { return run_generate(context, *options); });
}

}  // namespace volta::cli
