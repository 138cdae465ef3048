// GPT-2: PyTorch's numbers (tests/golden/transformer.py), Hugging Face's files, decoding with a
// cache of fixed capacity, sampling and generate().
#include "volta/models/gpt2.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "golden_module.h"
#include "volta/text/generate.h"
#include "volta/text/tokenizer.h"

namespace volta {
namespace {

namespace fs = std::filesystem;
using models::GPT2;
using models::GPT2Config;

const golden_module::File& golden() {
  static const golden_module::File file("transformer");
  return file;
}

GPT2Config tiny() {
  return {.vocab_size = 37,
          .n_positions = 16,
          .n_embd = 16,
          .n_layer = 2,
          .n_head = 2,
          .resid_pdrop = 0,
          .embd_pdrop = 0,
          .attn_pdrop = 0};
}

GPT2 golden_model(DType dtype = DType::f32) {
  GPT2 model(tiny(), {.dtype = dtype, .device = test_device()});
  model.load_pretrained(golden().under("gpt2/param/"));
  return model;
}

Tensor loss_of(GPT2& model) {
  const Tensor& ids = golden()["gpt2/in/ids"];
  const std::int64_t length = ids.size(1);
  return cross_entropy(model(ids).narrow(1, 0, length - 1).flatten(0, 1),
                       ids.narrow(1, 1, length - 1).flatten());
}

template <class E = ArgumentError>
std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(GoldenGpt2, LogitsLossGradientsTraining) {
  GPT2 model = golden_model();
  golden().expect_close(model(golden()["gpt2/in/ids"]), "gpt2/out", 1e-5);
  loss_of(model).backward();
  golden().expect_gradients("gpt2", model, {}, 1e-5);
  golden().expect_training("gpt2", model, [&] { return loss_of(model); });
}

// Compared with f32: bf16 has 8 bits, and two layers round one after the other. PyTorch's own bf16
// logits are off by up to 1.03e-2 of the largest logit, so the bound is about a hundredth (CPU
// 8.8e-3, CUDA 1.13e-2). The largest of 888 differences varies by chance, so their root mean square
// is compared too; ours must not exceed PyTorch's (3.1e-3 of the largest logit).
TEST(GoldenGpt2, Halves) {
  GPT2 model = golden_model(DType::bf16);
  const Tensor logits = model(golden()["gpt2/in/ids"]).to(DType::f32);
  const Tensor &exact = golden()["gpt2/out"], &theirs = golden()["gpt2/out_bf16"];
  const auto furthest = [&](const Tensor& from) { return (from - exact).abs().max().item(); };
  EXPECT_LE(furthest(logits), 1.25 * furthest(theirs));
  const auto off = [&](const Tensor& from) { return (from - exact).square().mean().sqrt().item(); };
  EXPECT_GT(off(theirs), 0);
  EXPECT_LE(off(logits), off(theirs));
}

TEST(Gpt2, ConfigurationsHaveTheirSizes) {
  const auto parameters = [](const GPT2Config& config) {
    std::int64_t count = 0;
    for (const Tensor& p : GPT2(config).parameters()) count += p.numel();
    return count;
  };
  EXPECT_EQ(parameters(GPT2Config::small()), 124439808);
  EXPECT_EQ(parameters(GPT2Config::medium()), 354823168);
  EXPECT_EQ(parameters(GPT2Config::large()), 774030080);
  EXPECT_EQ(parameters(GPT2Config::xl()), 1557611200);
}

TEST(Gpt2, StartsAsTheReference) {
  manual_seed(1);
  GPT2 model({.vocab_size = 500, .n_positions = 64, .n_embd = 64, .n_layer = 8, .n_head = 4},
             {.device = test_device()});
  const auto deviation = [](const Tensor& x) { return volta::std(x).item(); };
  EXPECT_NEAR(deviation(model.transformer.wte.weight), 0.02, 0.001);
  EXPECT_NEAR(deviation(model.transformer.h[3].attn.c_attn.weight), 0.02, 0.001);
  EXPECT_NEAR(deviation(model.transformer.h[3].mlp.c_proj.weight), 0.02 / 4, 0.001);
  EXPECT_EQ(model.lm_head.weight->to_vector<float>(),
            model.transformer.wte.weight->to_vector<float>());
}

// ---- Files.

class Gpt2Files : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  void write_config(const std::string& text) const {
    std::ofstream(folder_ / "config.json") << text;
  }
  std::string config_message(const std::string& text) const {
    write_config(text);
    const std::string path = (folder_ / "config.json").string();
    const std::string what = message_of<IoError>([&] { models::read_gpt2_config(path); });
    return what.starts_with(path) ? what.substr(path.size() + 2) : what;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "volta_gpt2";
  const std::string kConfig =
      R"({"model_type": "gpt2", "vocab_size": 37, "n_positions": 16, "n_ctx": 16, "n_embd": 16,
          "n_layer": 2, "n_head": 2, "n_inner": null, "activation_function": "gelu_new",
          "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-05, "use_cache": true})";
};

TEST_F(Gpt2Files, HuggingFacesFolderWithAndWithoutPrefix) {
  write_config(kConfig);
  const std::string file = (folder_ / "model.safetensors").string();
  for (const bool prefix : {true, false}) {
    StateDict state;
    for (const auto& [key, value] : golden().under("gpt2/param/transformer."))
      state.add(prefix ? "transformer." + key : key, value);
    const std::string h = prefix ? "transformer.h.0" : "h.0";
    state.add(h + ".attn.bias", tril(ones({1, 1, 16, 16})));
    state.add(h + ".attn.masked_bias", scalar(-1e4));
    if (prefix) state.add("lm_head.weight", golden()["gpt2/param/transformer.wte.weight"]);
    save(state, file);
    GPT2 model = GPT2::from_pretrained(folder_.string(), {.device = test_device()});
    EXPECT_FALSE(model.is_training());
    EXPECT_EQ(model.config().n_layer, 2);
    golden().expect_close(model(golden()["gpt2/in/ids"]), "gpt2/out", 1e-5);
    GPT2 same = GPT2::from_pretrained(file, {.dtype = DType::bf16, .device = test_device()});
    EXPECT_EQ(same.transformer.wte.weight->dtype(), DType::bf16);
  }
}

TEST_F(Gpt2Files, WhatIsSavedHasHuggingFacesKeys) {
  const GPT2 model(tiny());
  const StateDict state = model.state_dict();
  const StateDict expected = golden().under("gpt2/param/");
  EXPECT_EQ(state.size(), expected.size() + 1);  // plus lm_head.weight, which is tied
  for (const auto& [key, value] : expected) {
    ASSERT_TRUE(state.contains(key)) << key;
    EXPECT_EQ(state.at(key).shape(), value.shape()) << key;
  }
}

TEST_F(Gpt2Files, WrongOnesAreRefused) {
  EXPECT_EQ(config_message("[]"), "the configuration is no JSON object");
  EXPECT_EQ(config_message(R"({"model_type": "bert"})"),
            "\"model_type\" is \"bert\", expected \"gpt2\"");
  EXPECT_EQ(config_message(R"({"n_embd": "big"})"),
            "\"n_embd\" is no size: \"\\\"big\\\"\", expected is an integer from 1 to 262144");
  EXPECT_EQ(config_message(R"({"n_layer": -2})"),
            "\"n_layer\" is no size: \"-2\", expected is an integer from 1 to 10000");
  EXPECT_EQ(config_message(R"({"attn_pdrop": "x"})"), "\"attn_pdrop\" is no number");
  EXPECT_EQ(config_message(R"({"activation_function": "tanh"})"),
            "\"activation_function\": \"tanh\" is not supported");
  EXPECT_EQ(config_message(R"({"scale_attn_weights": false})"),
            "\"scale_attn_weights\": false is not supported");
  const std::string nothing = (folder_ / "nothing").string();
  try {
    GPT2::from_pretrained(nothing);
    ADD_FAILURE() << "no error";
  } catch (const IoError& error) {
    EXPECT_TRUE(
        std::string_view(error.what())
            .starts_with("GPT2::from_pretrained: " + nothing + ": there is no such file or folder"))
        << error.what();
  }
  GPT2 model(tiny());
  StateDict state = golden().under("gpt2/param/");
  state.add("transformer.h.2.ln_1.weight", ones({16}));
  EXPECT_NE(message_of([&] {
              model.load_pretrained(state);
            }).find("unexpected: transformer.h.2.ln_1.weight [16]"),
            std::string::npos);
}

// ---- Decoding.

TEST(Gpt2Cache, DecodingIsTheFullForward) {
  GPT2 model = golden_model();
  model.eval();
  const Tensor& ids = golden()["gpt2/in/ids"];
  const Tensor full = model(ids).detach();
  nn::KVCache cache = model.make_cache(2);
  EXPECT_EQ(cache.capacity(), 16);
  const auto expect_at = [&](const Tensor& logits, std::int64_t position) {
    const Tensor wanted = full.narrow(1, position, 1).squeeze(1);
    EXPECT_LT(volta::abs(logits - wanted).max().item(), 1e-5) << position;
  };
  expect_at(model.step(ids.narrow(1, 0, 5), cache), 4);
  for (std::int64_t t = 5; t < 9; ++t) expect_at(model.step(ids.narrow(1, t, 1), cache), t);
  expect_at(model.step(ids.narrow(1, 9, 3), cache), 11);  // several tokens at once, after others
  EXPECT_EQ(cache.length(), 12);
  cache.reset();
  for (std::int64_t t = 0; t < 3; ++t) expect_at(model.step(ids.narrow(1, t, 1), cache), t);
}

TEST(Gpt2Cache, TokensPlanCompileAndAllocateNothing) {
  GPT2 model({.vocab_size = 37, .n_positions = 64, .n_embd = 16, .n_layer = 2, .n_head = 2},
             {.device = test_device()});
  model.eval();
  for (const double temperature : {0.0, 0.7}) {
    nn::KVCache cache = model.make_cache();
    const text::SampleOptions sampling = {.temperature = temperature, .top_k = 5, .top_p = 0.9};
    Tensor next = full({1, 1}, 3, {.dtype = DType::i64, .device = test_device()});
    Counters before;
    MemoryStats memory;
    for (int t = 0; t < 52; ++t) {
      if (t == 20) before = counters(), memory = memory_stats(test_device());
      next = text::sample_tokens(model.step(next, cache), sampling).unsqueeze(1);
      submit(test_device());
    }
    next.item<std::int64_t>();
    const Counters after = counters();
    EXPECT_EQ(after.plans_built, before.plans_built);
    EXPECT_EQ(after.compilations, before.compilations);
    EXPECT_EQ(after.allocations, before.allocations);
    EXPECT_EQ(after.submits, before.submits + 32);
    EXPECT_EQ(memory_stats(test_device()).reserved, memory.reserved);
  }
}

TEST(Gpt2Cache, MistakesAreToldAtTheCall) {
  GPT2 model(tiny());
  const auto ids = [](std::int64_t batch, std::int64_t length) {
    return zeros({batch, length}, {.dtype = DType::i64});
  };
  nn::KVCache cache = model.make_cache(1, 4);
  EXPECT_EQ(message_of([&] { model.step(ids(1, 5), cache); }),
            "KVCache: 0 tokens and 5 more are beyond the capacity of 4 "
            "(in h.0.attn of GPT2Transformer)");
  EXPECT_EQ(message_of<ShapeError>([&] { model.step(ids(2, 1), cache); }),
            "GPT2: ids [2, 1] and 2 layers do not fit a cache of batch 1, 2 layers");
  EXPECT_EQ(message_of([&] { model(ids(1, 17)); }),
            "GPT2: positions 0 to 16 are beyond the model's 16 (in transformer of GPT2)");
  EXPECT_EQ(message_of<ShapeError>([&] { model(zeros({3}, {.dtype = DType::i64})); }),
            "GPT2: ids must be [batch, length], got [3] (in transformer of GPT2)");
  EXPECT_EQ(message_of<DTypeError>([&] { model(zeros({1, 3})); }),
            "GPT2: ids are integers, got f32 (in transformer of GPT2)");
  EXPECT_EQ(message_of([&] { model.make_cache(1, 17); }),
            "GPT2: a cache of 17 tokens for a model of 16 positions");
  EXPECT_EQ(message_of([&] { GPT2({.n_embd = 10, .n_head = 3}); }),
            "GPT2: n_embd 10 is not a multiple of n_head 3");
  EXPECT_EQ(message_of([&] { model.generate(ids(1, 10), {.tokens = 7}); }),
            "generate: 10 tokens and 7 more are beyond the model's 16 positions");
}

// ---- Sampling.

std::map<std::int64_t, int> counts(const text::SampleOptions& options, int rows) {
  const Tensor logits = log(tensor({0.1, 0.4, 0.2, 0.3}, {.device = test_device()}));
  const Tensor ids = text::sample_tokens(logits.expand({rows, 4}), options);
  EXPECT_EQ(ids.shape(), Shape{rows});
  std::map<std::int64_t, int> result;
  for (const std::int64_t id : ids.to_vector<std::int64_t>()) ++result[id];
  return result;
}

TEST(Sampling, FollowsTheProbabilities) {
  const int rows = 20000;
  const auto near = [&](int count, double p) { EXPECT_NEAR(count / double(rows), p, 0.015) << p; };
  auto found = counts({.generator = Generator(1)}, rows);
  near(found[0], 0.1), near(found[1], 0.4), near(found[2], 0.2), near(found[3], 0.3);
  found = counts({.top_k = 2, .generator = Generator(2)}, rows);
  near(found[1], 4.0 / 7), near(found[3], 3.0 / 7);
  EXPECT_EQ(found.size(), 2u);
  found = counts({.top_p = 0.65, .generator = Generator(3)}, rows);  // keeps 0.4 and 0.3
  near(found[1], 4.0 / 7), near(found[3], 3.0 / 7);
  EXPECT_EQ(found.size(), 2u);
  found = counts({.top_p = 0.75, .generator = Generator(4)}, rows);
  near(found[1], 4.0 / 9), near(found[3], 3.0 / 9), near(found[2], 2.0 / 9);
  found = counts({.temperature = 0.5, .top_k = 3, .top_p = 0.99, .generator = Generator(5)}, rows);
  near(found[1], 16.0 / 29), near(found[3], 9.0 / 29), near(found[2], 4.0 / 29);
  EXPECT_EQ(counts({.temperature = 0}, 5), (std::map<std::int64_t, int>{{1, 5}}));
  EXPECT_EQ(counts({.top_k = 1}, 5), (std::map<std::int64_t, int>{{1, 5}}));
  EXPECT_EQ(counts({.top_p = 1e-6}, 5), (std::map<std::int64_t, int>{{1, 5}}));
}

TEST(Sampling, MistakesAreToldAtTheCall) {
  const Tensor logits = zeros({2, 3});
  EXPECT_EQ(message_of([&] { text::sample_tokens(logits, {.temperature = -1}); }),
            "sample_tokens: temperature must not be negative, got -1");
  EXPECT_EQ(message_of([&] { text::sample_tokens(logits, {.top_k = -1}); }),
            "sample_tokens: top_k must not be negative, got -1");
  EXPECT_EQ(message_of([&] { text::sample_tokens(logits, {.top_p = 0}); }),
            "sample_tokens: top_p must be in (0, 1], got 0");
  EXPECT_EQ(message_of<ShapeError>([&] { text::sample_tokens(zeros({})); }),
            "sample_tokens: expected floating logits [..., vocab], got f32 []");
}

// ---- generate().

// The ids of the greedy continuation, by full forward passes.
std::vector<std::int64_t> greedy(GPT2& model, std::vector<std::int64_t> ids, int tokens) {
  const NoGrad no_grad;
  for (int i = 0; i < tokens; ++i) {
    const auto length = static_cast<std::int64_t>(ids.size());
    const Tensor logits = model(from_vector(ids, {1, length}, {.device = test_device()}));
    ids.push_back(logits.narrow(1, length - 1, 1).argmax().item<std::int64_t>());
  }
  return ids;
}

TEST(Generate, WithACacheAsByFullForwards) {
  GPT2 model = golden_model();
  model.eval();
  const std::vector<std::int64_t> prompt = {5, 1, 30};
  const std::vector<std::int64_t> wanted = greedy(model, prompt, 9);
  const Tensor row = from_vector(prompt, {1, 3}, {.device = test_device()});
  const Tensor made = model.generate(row, {.tokens = 9, .temperature = 0});
  EXPECT_EQ(made.shape(), (Shape{1, 12}));
  EXPECT_EQ(made.to_vector<std::int64_t>(), wanted);
  const auto logits_of = [&](const Tensor& ids) { return model(ids); };
  EXPECT_EQ(
      text::continue_tokens(logits_of, prompt, test_device(), {.tokens = 9, .temperature = 0}),
      wanted);
  std::vector<std::int64_t> told = prompt;
  const auto tell = [&](const GeneratedToken& token) {
    told.push_back(token.id);
    return told.size() < 8;
  };
  EXPECT_EQ(model.generate(row, {.tokens = 9, .temperature = 0, .on_token = tell}).shape(),
            (Shape{1, 8}));
  EXPECT_EQ(told, std::vector<std::int64_t>(wanted.begin(), wanted.begin() + 8));
  const Tensor rows = zeros({2, 3}, {.dtype = DType::i64, .device = test_device()});
  EXPECT_EQ(message_of([&] { model.generate(rows, {.tokens = 1, .on_token = tell}); }),
            "generate: on_token is told the tokens of one row, not of 2");
  // Generation ends with the stop token, also if rows reach it at different times.
  const Tensor stopped = model.generate(row, {.tokens = 9, .temperature = 0, .stop = wanted[6]});
  const std::vector<std::int64_t> ids = stopped.to_vector<std::int64_t>();
  EXPECT_LE(ids.size(), 7u);
  EXPECT_EQ(ids.back(), wanted[6]);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), wanted.begin()));
}

TEST(Generate, SeedsRepeat) {
  GPT2 model = golden_model();
  model.eval();
  const Tensor rows = full({2, 2}, 7, {.dtype = DType::i64, .device = test_device()});
  const auto made = [&](std::uint64_t seed) {
    return model.generate(rows, {.tokens = 10, .top_k = 20, .seed = seed})
        .to_vector<std::int64_t>();
  };
  EXPECT_EQ(made(1), made(1));
  EXPECT_NE(made(1), made(2));
}

struct Letters {
  std::vector<std::int64_t> encode(const std::string& text) const {
    std::vector<std::int64_t> ids;
    for (const char letter : text) ids.push_back(letter - 'a');
    return ids;
  }
  std::string decode(std::span<const std::int64_t> ids) const {
    std::string text;
    for (const std::int64_t id : ids) text += static_cast<char>('a' + id);
    return text;
  }
};

// Its logits are those of the next letter of the alphabet, if the position is among its own.
struct Alphabet : nn::Module {
  nn::Embedding token{26, 26};
  int calls = 0;
  std::vector<Shape> shapes;
  Alphabet() {
    add("token", token);
    to(test_device());
    const NoGrad no_grad;
    Tensor weight = token.weight;
    weight.copy_(eye(26, {.device = test_device()}).roll(1, 1) * 50);
  }
  Tensor forward(const Tensor& ids) override {
    ++calls;
    shapes.push_back(ids.shape());
    return token(ids);
  }
};

TEST(Generate, AnyModuleAndAnyCodec) {
  Alphabet model;
  EXPECT_EQ(volta::generate(model, Letters(), {.prompt = "abc", .tokens = 5, .temperature = 0.8}),
            "abcdefgh");
  EXPECT_EQ(model.calls, 5);
  model.shapes.clear();
  // All windows have one size; after the context is full they slide.
  EXPECT_EQ(volta::generate(model, Letters(), {.prompt = "hijkl", .tokens = 12, .context = 8}),
            "hijklmnopqrstuvwx");
  for (const Shape& shape : model.shapes) EXPECT_EQ(shape, (Shape{1, 8}));
  EXPECT_EQ(volta::generate(model, Letters(), {.prompt = "hijkl", .tokens = 2, .context = 3}),
            "hijklmn");
  EXPECT_EQ(volta::generate(model, Letters(), {.prompt = "a", .tokens = 20, .stop = 4}), "abcde");
  EXPECT_EQ(volta::generate(model, Letters(), {.prompt = "xyz", .tokens = 0}), "xyz");
}

TEST(Generate, TellsEveryTokenInOrder) {
  Alphabet model;
  std::vector<std::int64_t> told;
  std::string text;
  GenerateOptions options{.prompt = "abc", .tokens = 5, .temperature = 0};
  options.on_token = [&](const GeneratedToken& token) {
    EXPECT_EQ(model.calls, static_cast<int>(told.size()) + 1);  // not only at the end
    told.push_back(token.id);
    text += token.text;
    return true;
  };
  EXPECT_EQ(volta::generate(model, Letters(), options), "abcdefgh");
  EXPECT_EQ(told, (std::vector<std::int64_t>{3, 4, 5, 6, 7}));
  EXPECT_EQ(text, "defgh");
  // Returning false ends generation after the reported token; the stop token is reported, too.
  told.clear();
  options.on_token = [&](const GeneratedToken& token) {
    told.push_back(token.id);
    return told.size() < 2;
  };
  EXPECT_EQ(volta::generate(model, Letters(), options), "abcde");
  told.clear();
  options.stop = 3;
  EXPECT_EQ(volta::generate(model, Letters(), options), "abcd");
  EXPECT_EQ(told, std::vector<std::int64_t>{3});
}

// Tokens are bytes, so a character may take four tokens.
struct Utf8Bytes {
  std::string all = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xff\xe2\x82";
  std::vector<std::int64_t> encode(const std::string&) const { return {0}; }
  std::string decode(const std::vector<std::int64_t>& ids) const {
    std::string text;
    for (const std::int64_t id : ids) text += all[static_cast<std::size_t>(id)];
    return text;
  }
};

TEST(Generate, TextIsToldInWholeCharacters) {
  Alphabet model;
  std::vector<std::string> told;
  const std::string result = volta::generate(
      model, Utf8Bytes(),
      {.prompt = "a", .tokens = 13, .temperature = 0, .on_token = [&](const GeneratedToken& token) {
         told.emplace_back(token.text);
         return true;
       }});
  EXPECT_EQ(result, Utf8Bytes().all);
  // Invalid bytes are not held back; an incomplete character at the end appears only in the result.
  EXPECT_EQ(told, (std::vector<std::string>{"", "\xc3\xa9", "", "", "\xe2\x82\xac", "", "", "",
                                            "\xf0\x9f\x98\x80", "z", "\xff", "", ""}));
}

TEST(Generate, EveryTokenIsOnePlan) {
  Alphabet model;
  const auto run = [&](std::int64_t tokens) {
    const Counters before = counters();
    volta::generate(model, Letters(), {.prompt = "abcde", .tokens = tokens, .context = 12});
    return counters().plans_built - before.plans_built;
  };
  run(20);
  EXPECT_EQ(run(40), 0u);
}

TEST(Generate, MistakesAreToldAtTheCall) {
  Alphabet model;
  const auto message = [&](const GenerateOptions& options) {
    return message_of([&] { volta::generate(model, Letters(), options); });
  };
  EXPECT_EQ(message({}), "generate: the prompt has no tokens to start from");
  EXPECT_EQ(message({.prompt = "a", .tokens = -1}),
            "generate: tokens must be 0 to 4294967296, got -1");
  EXPECT_EQ(message({.prompt = "a", .context = 0}),
            "generate: context must be 1 to 4294967296, got 0");
  EXPECT_EQ(message({.prompt = "a", .top_p = 2}), "generate: top_p must be in (0, 1], got 2");
  const auto flat = [](const Tensor& ids) { return ids.to(DType::f32); };
  EXPECT_EQ(message_of<ShapeError>(
                [&] { text::continue_tokens(flat, {1, 2}, Device::cpu(), {.tokens = 1}); }),
            "generate: the model made [1, 3] of ids [1, 3], expected [1, 3, vocab]");
}

}  // namespace
}  // namespace volta
