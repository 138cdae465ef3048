// volta generate: text token by token, equal for equal seeds; and how it ends.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli_runs.h"
#include "output/terminal.h"
#include "output/text_stream.h"
#include "output/utf8.h"
#include "volta/data/text.h"
#include "volta/detail/utf8.h"
#include "volta/io.h"
#include "volta/models.h"
#include "volta/random.h"
#include "volta/text/generate.h"
#include "volta/text/tokenizer.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = detail::first_character(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

// ---- The stream.

TEST(CliGenerateStream, WholeCharactersOnly) {
  const Terminal plain;
  std::ostringstream out;
  TextStream stream(&out, plain, {});
  const std::string text = "größe €5 𝄞!";
  for (const char byte : text) {
    EXPECT_TRUE(stream.add({&byte, 1}));
    EXPECT_TRUE(is_utf8(out.str())) << out.str();
  }
  EXPECT_EQ(out.str(), text);  // the last character is complete
  stream.add("\xe2\x82");      // this character is never completed
  EXPECT_EQ(out.str(), text);
  stream.finish();
  EXPECT_EQ(out.str(), text + "\xef\xbf\xbd\xef\xbf\xbd\n");
  EXPECT_EQ(stream.text(), text + "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(CliGenerateStream, BytesThatAreNoText) {
  const Terminal plain;
  std::ostringstream out;
  TextStream stream(&out, plain, {});
  for (const std::string_view bytes : {"a\xff", "\x80z", "\xc3(", "\xed\xa0\x80", "\n"})
    stream.add(bytes);
  stream.finish();
  EXPECT_TRUE(is_utf8(out.str())) << out.str();
  EXPECT_TRUE(out.str().starts_with("a\xef\xbf\xbd\xef\xbf\xbdz")) << out.str();
  EXPECT_TRUE(out.str().ends_with("\n") && !out.str().ends_with("\n\n")) << out.str();
}

TEST(CliGenerateStream, APromptThatIsNoText) {
  const Terminal plain;
  std::ostringstream out;
  TextStream stream(&out, plain, {});
  stream.show("a\xff z");
  EXPECT_EQ(out.str(), "a\xef\xbf\xbd z");
  EXPECT_EQ(stream.text(), "");
}

TEST(CliGenerateStream, StopTexts) {
  const Terminal plain;
  std::ostringstream out;
  TextStream stream(&out, plain, {"END.", "\n\n"});
  EXPECT_TRUE(stream.add("one EN"));
  EXPECT_EQ(out.str(), "one ");  // "EN" may begin a stop text
  EXPECT_TRUE(stream.add("ERGY\n"));
  EXPECT_EQ(out.str(), "one ENERGY");
  EXPECT_TRUE(stream.add("two E"));
  EXPECT_FALSE(stream.add("ND. three"));
  stream.finish();
  EXPECT_EQ(out.str(), "one ENERGY\ntwo \n");
  EXPECT_EQ(stream.text(), "one ENERGY\ntwo ");
}

TEST(CliGenerateStream, TerminalsGetNoControlCharacters) {
  Terminal terminal;
  terminal.interactive = terminal.unicode = true;
  std::ostringstream out;
  TextStream stream(&out, terminal, {});
  stream.add("a\x1b[2Jb\tc\n");
  EXPECT_EQ(out.str(), "a\\x1b[2Jb\tc\n");
  EXPECT_EQ(stream.text(), "a\x1b[2Jb\tc\n");
}

TEST(CliGenerateStream, BytesAsCharacters) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_TRUE(is_utf8(bytes_as_characters(all)));
  EXPECT_EQ(characters_as_bytes(bytes_as_characters(all)), all);
}

// ---- The command.

class CliGenerate : public Runs {
 protected:
  std::vector<std::string> words(const std::string& run,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"generate", path(run), "--device", "cpu"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string text(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = words(run, more);
    all.emplace_back("--quiet");
    const Ended ended = volta(all);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    return ended.out;
  }
  // A GPT-2 in Hugging Face's layout with random weights.
  std::string pretrained(const std::string& name) const {
    const fs::path folder = path(name), files = source_tree() + "/tests/golden/tokenizer";
    fs::create_directories(folder);
    for (const char* file : {"vocab.json", "merges.txt"}) fs::copy(files / file, folder / file);
    const auto tokenizer = text::BPETokenizer::from_pretrained(folder.string());
    models::GPT2Config config;
    config.vocab_size = tokenizer.vocab_size();
    config.n_positions = 32;
    config.n_embd = 16;
    config.n_layer = config.n_head = 2;
    manual_seed(3);
    save(models::GPT2(config).state_dict(), (folder / "model.safetensors").string());
    put(name + "/config.json", nlohmann::json{{"model_type", "gpt2"},
                                              {"vocab_size", config.vocab_size},
                                              {"n_positions", 32},
                                              {"n_embd", 16},
                                              {"n_layer", 2},
                                              {"n_head", 2}}
                                   .dump());
    return folder.string();
  }
};

TEST_F(CliGenerate, TheSameSeedGivesTheSameText) {
  for (const char* recipe : {"char-gpt", "char-lstm"}) {
    ASSERT_EQ(volta(text_run(recipe, recipe, {"--quiet"})).code, 0);
    // Three times as many tokens as the model has positions.
    const std::string one = text(recipe, {"--seed", "5", "--tokens", "75"});
    EXPECT_TRUE(one.starts_with("The ")) << one;
    EXPECT_GE(one.size(), 4U + 75);
    EXPECT_EQ(text(recipe, {"--seed", "5", "--tokens", "75"}), one);
    EXPECT_NE(text(recipe, {"--seed", "6", "--tokens", "75"}), one);
    const std::string greedy = text(recipe, {"--temperature", "0", "--seed", "1"});
    EXPECT_EQ(text(recipe, {"--temperature", "0", "--seed", "2"}), greedy);
    EXPECT_EQ(text(recipe, {"--top-k", "1"}), greedy);
    EXPECT_EQ(text(recipe, {"--top-p", "0.000001"}), greedy);
  }
}

// Generation with the cache gives the library's text without one.
TEST_F(CliGenerate, ItIsTheLibrarysText) {
  ASSERT_EQ(volta(text_run("char-gpt", "run", {"--quiet"})).code, 0);
  const auto corpus = data::CharCorpus::from_text(data::embedded_text());
  models::GPT2Config config;
  config.vocab_size = corpus.vocab_size();
  config.n_positions = config.n_embd = 24;
  config.n_layer = 1;
  config.n_head = 2;
  models::GPT2 model(config);
  model.load_state_dict(load(path("run/best.safetensors")));
  model.eval();
  std::vector<std::int64_t> ids = corpus.encode("What ");
  ids = text::continue_tokens([&](const Tensor& window) { return model(window); }, ids,
                              Device::cpu(), {.tokens = 15, .temperature = 0, .context = 24});
  EXPECT_EQ(text("run", {"--prompt", "What ", "--tokens", "15", "--temperature", "0"}),
            corpus.decode(ids) + "\n");
}

TEST_F(CliGenerate, OneDocument) {
  ASSERT_EQ(volta(text_run("char-gpt", "run", {"--quiet"})).code, 0);
  const auto all =
      json_of(words("run", {"--json", "--prompt", "O ", "--tokens", "10", "--seed", "4"}));
  EXPECT_EQ(all["prompt"], "O ");
  EXPECT_EQ(all["prompt_tokens"], 2);
  EXPECT_EQ(all["tokens"], 10);
  EXPECT_EQ(all["text"].get<std::string>().size(), 10U);
  EXPECT_EQ(all["ended"], "length");
  EXPECT_EQ(all["seed"], 4);
  EXPECT_GT(all["seconds"], 0);
  EXPECT_GT(all["tokens_per_second"], 0);
  EXPECT_EQ("O " + all["text"].get<std::string>() + "\n",
            text("run", {"--prompt", "O ", "--tokens", "10", "--seed", "4"}));
  // Without --quiet a line of statistics follows.
  const Ended told = volta(words("run", {"--tokens", "3", "--seed", "4"}));
  EXPECT_TRUE(told.err.starts_with("3 tokens in ")) << told.err;
  EXPECT_TRUE(has(told.err, "seed 4")) << told.err;
}

TEST_F(CliGenerate, Prompts) {
  // The training text is lost, but the run has the alphabet.
  std::string corpus;
  for (int i = 0; i < 60; ++i) corpus += "grüße an alle, ";
  ASSERT_EQ(volta(text_run("char-lstm", "run", {"--quiet", "--data", put("text", corpus)})).code,
            0);
  fs::remove(path("text"));
  const std::string piped =
      volta(words("run", {"--prompt", "-", "--tokens", "5", "--seed", "1", "--quiet"}),
            {.input = "grüße\n"})
          .out;
  EXPECT_TRUE(piped.starts_with("grüße")) << piped;
  EXPECT_EQ(piped, text("run", {"--prompt", "grüße", "--tokens", "5", "--seed", "1"}));
  EXPECT_TRUE(is_utf8(text("run", {"--seed", "2", "--temperature", "3"})));
  EXPECT_FALSE(text("run", {"--prompt", "", "--tokens", "5"}).empty());
  EXPECT_EQ(complaint(words("run", {"--prompt", "grÖße X€X"}), 1),
            "volta generate: the text that the model learned from has no 'Ö' 'X' '€', which the "
            "prompt has: leave them out");
}

TEST_F(CliGenerate, StopsBeforeAText) {
  ASSERT_EQ(volta(text_run("char-gpt", "run", {"--quiet"})).code, 0);
  const std::vector<std::string> base = {"--seed", "3", "--tokens", "60", "--prompt", "The "};
  const std::string whole = text("run", base);
  const std::string stop = whole.substr(30, 2);
  std::vector<std::string> more = base;
  more.insert(more.end(), {"--stop", stop});
  const std::size_t at = whole.find(stop, 4);
  EXPECT_EQ(text("run", more), whole.substr(0, at) + "\n");
  more.emplace_back("--json");
  EXPECT_EQ(json_of(words("run", more))["ended"], "stop");
}

TEST_F(CliGenerate, HuggingFacesLayout) {
  pretrained("gpt2");
  for (const char* seed : {"1", "2", "3"}) {
    // Tokens may contain any bytes; this is twice the number of positions.
    const auto all = json_of(words("gpt2", {"--json", "--prompt", "Hello", "--tokens", "64",
                                            "--seed", seed, "--temperature", "2"}));
    EXPECT_TRUE(all["ended"] == "end of text" || all["tokens"] == 64) << all;
    const std::string shown =
        text("gpt2", {"--prompt", "Hello", "--tokens", "64", "--seed", seed, "--temperature", "2"});
    EXPECT_TRUE(is_utf8(shown)) << shown;
    EXPECT_TRUE(shown.starts_with("Hello" + all["text"].get<std::string>())) << shown;
  }
  std::string longer;
  for (int i = 0; i < 50; ++i) longer += "word ";
  const Ended cut = volta(words("gpt2", {"--prompt", longer, "--tokens", "4"}));
  EXPECT_EQ(cut.code, 0) << cut.err;
  EXPECT_TRUE(has(cut.err, "of which the model sees the last 16")) << cut.err;
  fs::remove(path("gpt2/merges.txt"));
  EXPECT_TRUE(has(complaint(words("gpt2"), 1), "merges.txt"));
}

TEST_F(CliGenerate, ARunOfGpt2) {
  const std::string model = pretrained("gpt2");
  std::string corpus;
  for (int i = 0; i < 80; ++i) corpus += "Hello, world. ";
  const Ended ended = volta({"train", "gpt2", "--device", "cpu", "--data", put("text", corpus),
                             "--set", "model=" + model, "--set", "length=12", "--steps", "4",
                             "--batch", "2", "--out", path("run")});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(text("run", {"--prompt", "Hello", "--tokens", "8"}).starts_with("Hello"));
  const auto all = json_of({"eval", path("run"), "--device", "cpu", "--json"});
  EXPECT_EQ(all["metrics"]["validation loss"],
            evaluations("run", "validation loss").back()["validation loss"]);
}

TEST_F(CliGenerate, CtrlCEndsTheLine) {
  ASSERT_EQ(volta(text_run("char-gpt", "run", {"--quiet"})).code, 0);
  std::string shown;
  const Ended ended =
      volta_during(words("run", {"--tokens", "100000000"}), [&](pid_t process, int out) {
        std::array<char, 256> bytes{};
        ssize_t count = ::read(out, bytes.data(), bytes.size());  // text arrives before the end
        EXPECT_GT(count, 0);
        ::kill(process, SIGINT);
        for (; count > 0; count = ::read(out, bytes.data(), bytes.size()))
          shown.append(bytes.data(), static_cast<std::size_t>(count));
        ::close(out);
      });
  EXPECT_EQ(ended.code, 130);
  EXPECT_TRUE(shown.ends_with('\n'))
      << shown.substr(shown.size() - std::min<std::size_t>(20, shown.size()));
  EXPECT_TRUE(has(ended.err, " in ")) << ended.err;
}

// The reader of the output ends early, like `| head -c 100`.
TEST_F(CliGenerate, NobodyReadsOn) {
  ASSERT_EQ(volta(text_run("char-gpt", "run", {"--quiet"})).code, 0);
  for (const bool ignored : {false, true}) {
    const Ended ended = volta_during(words("run", {"--tokens", "100000000"}),
                                     [](pid_t /*process*/, int out) {
                                       std::array<char, 100> bytes{};
                                       EXPECT_GT(::read(out, bytes.data(), bytes.size()), 0);
                                       ::close(out);
                                     },
                                     {.ignore_sigpipe = ignored});
    EXPECT_EQ(ended.code, 1);
    EXPECT_EQ(ended.err, "volta generate: cannot write to the standard output: Broken pipe\n");
  }
  // No line of statistics is printed before.
  const Ended full = volta(words("run", {"--tokens", "100000000"}), {.out_file = "/dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_EQ(full.err,
            "volta generate: cannot write to the standard output: No space left on device\n");
}

TEST_F(CliGenerate, Mistakes) {
  ASSERT_EQ(volta(small("mlp", {"--quiet", "--set", "epochs=1"})).code, 0);
  EXPECT_TRUE(has(complaint(words("mlp"), 1), "is a run of mlp, which makes no text"));
  EXPECT_TRUE(has(complaint(words("nothing"), 2), "no folder of a run"));
  fs::create_directory(path("broken"));
  put("broken/config.json", "{\"recipe\": ");
  EXPECT_TRUE(
      has(complaint(words("broken"), 1), "broken/config.json: is no valid JSON from byte 12 on"));
  EXPECT_TRUE(has(complaint({"generate"}, 2), "FOLDER is required"));
  EXPECT_TRUE(has(complaint(words("mlp", {"--temperature", "-1"}), 2), "less than 0"));
  EXPECT_TRUE(has(complaint(words("mlp", {"--top-p", "0"}), 2), "--top-p must be above 0"));
  EXPECT_TRUE(has(complaint(words("mlp", {"--tokens", "0"}), 2), "is not from 1 to"));
  EXPECT_TRUE(has(complaint(words("mlp", {"--dtype", "f64"}), 2), "not one of f32"));
  ASSERT_EQ(volta(text_run("char-gpt", "gpt", {"--quiet"})).code, 0);
  ASSERT_EQ(volta(text_run("char-lstm", "lstm", {"--quiet"})).code, 0);
  EXPECT_TRUE(has(complaint(words("gpt", {"--checkpoint", path("lstm/best.safetensors")}), 1),
                  "has the weights of another model than char-gpt"));
}

}  // namespace
}  // namespace volta::cli
