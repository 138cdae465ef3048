// volta train on files: CIFAR-10's, texts, Hugging Face's; and mistakes in them. Each mistake is
// one sentence, and no folder of a run is left behind.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli_runs.h"
#include "volta/io.h"
#include "volta/models.h"
#include "volta/random.h"
#include "volta/text/tokenizer.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

class CliTrainData : public Runs {
 protected:
  // Images of one colour for each class, in CIFAR-10's layout: a label and 3 x 32 x 32 bytes.
  static std::string pictures(int count, int first) {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      const int label = (first + i) % 10;
      bytes += static_cast<char>(label);
      for (int channel = 0; channel < 3; ++channel)
        bytes.append(32 * 32, static_cast<char>(label * 25 * (channel == label % 3 ? 1 : 0)));
    }
    return bytes;
  }
  std::string cifar(const std::string& name) const {
    fs::create_directories(path(name));
    for (int i = 1; i <= 5; ++i)
      put(name + "/data_batch_" + std::to_string(i) + ".bin", pictures(8, i));
    put(name + "/test_batch.bin", pictures(20, 0));
    return path(name);
  }
  std::vector<std::string> resnet(const std::string& data, const std::string& out,
                                  const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "train", "resnet18-cifar", "--data",   data, "--set",   "width=4",
        "--set", "workers=0",      "--batch",  "8",  "--steps", "6",
        "--out", path(out),        "--device", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string pretrained(const std::string& name) const {
    const fs::path folder = path(name), files = source_tree() + "/tests/golden/tokenizer";
    fs::create_directories(folder);
    for (const char* file : {"vocab.json", "merges.txt"}) fs::copy(files / file, folder / file);
    models::GPT2Config config;
    config.vocab_size = text::BPETokenizer::from_pretrained(folder.string()).vocab_size();
    config.n_positions = config.n_embd = 16;
    config.n_layer = config.n_head = 1;
    manual_seed(3);
    save(models::GPT2(config).state_dict(), (folder / "model.safetensors").string());
    put(name + "/config.json", nlohmann::json{{"model_type", "gpt2"},
                                              {"vocab_size", config.vocab_size},
                                              {"n_positions", 16},
                                              {"n_embd", 16},
                                              {"n_layer", 1},
                                              {"n_head", 1}}
                                   .dump());
    return folder.string();
  }
  std::vector<std::string> gpt2(const std::string& data, const std::string& model,
                                const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"train",          "gpt2",     "--data",    data,      "--set",
                                      "model=" + model, "--set",    "length=12", "--steps", "6",
                                      "--batch",        "2",        "--set",     "lr=0.01", "--out",
                                      path("gpt2 run"), "--device", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static std::string sentences(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "It was the best of times. ";
    return text;
  }
};

TEST_F(CliTrainData, Cifar) {
  const Ended ended = volta(resnet(cifar("cifar"), "run"));
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(has(ended.err, "40 examples an epoch")) << ended.err;
  // 40 images in batches of 8: an epoch has five steps.
  const auto all = evaluations("run", "test accuracy");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]["step"], 5);
  EXPECT_EQ(all[1]["step"], 6);
  EXPECT_TRUE(has(read("run/report.html"), "airplane"));
  const auto again =
      json_of({"eval", path("run"), "--device", "cpu", "--checkpoint", "last", "--json"});
  EXPECT_EQ(again["metrics"]["test loss"], all[1]["test loss"]);
  EXPECT_EQ(again["classes"][3]["label"], "cat");
  EXPECT_EQ(again["classes"][3]["examples"], 2);
}

TEST_F(CliTrainData, WhatIsWrongWithPictures) {
  EXPECT_TRUE(has(complaint(resnet(path("nowhere"), "x"), 1), "data_batch_1.bin"));
  cifar("cifar");
  fs::remove(path("cifar/test_batch.bin"));
  EXPECT_TRUE(has(complaint(resnet(path("cifar"), "x"), 1), "test_batch.bin"));
  put("cifar/test_batch.bin", pictures(2, 0) + "more");
  EXPECT_TRUE(has(complaint(resnet(path("cifar"), "x"), 1), "test_batch.bin"));
  std::string wrong = pictures(2, 0);
  wrong[0] = 77;
  put("cifar/test_batch.bin", wrong);
  EXPECT_TRUE(has(complaint(resnet(path("cifar"), "x"), 1), "77"));
  put("cifar/test_batch.bin", pictures(4, 0));
  fs::permissions(path("cifar/data_batch_3.bin"), fs::perms(0));
  fs::permissions(folder_, fs::perms(0777));
  EXPECT_TRUE(
      has(complaint(resnet(path("cifar"), "x"), 1, {.as_nobody = true}), "Permission denied"));
  EXPECT_FALSE(fs::exists(path("x")));
}

TEST_F(CliTrainData, Gpt2) {
  const std::string model = pretrained("model");
  const Ended ended = volta(gpt2(put("text", sentences(60)), model, {"--set", "evaluate_every=3"}));
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto all = evaluations("gpt2 run", "validation loss");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_LT(all[1]["validation loss"], all[0]["validation loss"]);
  EXPECT_TRUE(load(path("gpt2 run/best.safetensors")).contains("transformer.wte.weight"));
}

TEST_F(CliTrainData, WhatIsWrongWithTexts) {
  const std::string model = pretrained("model"), text = put("text", sentences(60));
  EXPECT_TRUE(has(complaint(gpt2(text, path("none")), 1), "none"));
  EXPECT_TRUE(has(complaint({"train", "gpt2", "--data", text, "--out", path("x")}, 2),
                  "--set model=FOLDER"));
  EXPECT_TRUE(has(complaint(gpt2(path("none.txt"), model), 1), "none.txt"));
  EXPECT_TRUE(has(complaint(gpt2(path("model"), model), 1), path("model")));
  EXPECT_TRUE(has(complaint(gpt2(put("short", "It was."), model), 2), "too short"));
  EXPECT_TRUE(has(complaint(gpt2(put("empty", ""), model), 1), "empty"));
  EXPECT_TRUE(has(complaint(gpt2(text, model, {"--set", "length=40"}), 2), "16 positions"));
  put("model/config.json", "{\"model_type\": \"bert\"}");
  EXPECT_TRUE(has(complaint(gpt2(text, model), 1), "bert"));
  put("model/vocab.json", "[]");
  EXPECT_TRUE(has(complaint(gpt2(text, model), 1), "vocab.json"));
  fs::permissions(text, fs::perms(0));
  fs::permissions(folder_, fs::perms(0777));
  EXPECT_TRUE(has(
      complaint({"train", "char-gpt", "--data", text, "--out", path("x")}, 1, {.as_nobody = true}),
      "Permission denied"));
  EXPECT_FALSE(fs::exists(path("gpt2 run")));
  EXPECT_FALSE(fs::exists(path("x")));
}

// The sample in the report begins with the part of the prompt that can be encoded.
TEST_F(CliTrainData, ATextWithoutThePromptsLetters) {
  std::string digits;
  for (int i = 0; i < 900; ++i) digits += std::to_string(i % 10);
  const Ended ended = volta(text_run("char-gpt", "run", {"--data", put("digits", digits)}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(read("run/config.json"))["alphabet"], "0123456789");
}

}  // namespace
}  // namespace volta::cli
