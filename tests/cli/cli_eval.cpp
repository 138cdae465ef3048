// volta eval: it reports the numbers that the training reported, and refuses unsuitable input.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cli_runs.h"
#include "volta/creation.h"
#include "volta/io.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

class CliEval : public Runs {};

TEST_F(CliEval, TheNumbersOfTheTraining) {
  ASSERT_EQ(volta(small("run", {"--quiet"})).code, 0);
  const auto all = evaluations("run", "test accuracy");
  ASSERT_EQ(all.size(), 4U);
  const auto best = *std::ranges::max_element(
      all, {}, [](const nlohmann::json& line) { return line["test accuracy"].get<double>(); });
  const auto found = json_of({"eval", path("run"), "--device", "cpu", "--json"});
  EXPECT_EQ(found["recipe"], "mlp");
  EXPECT_EQ(found["step"], best["step"]);
  EXPECT_EQ(found["metrics"]["test accuracy"], best["test accuracy"]);
  EXPECT_EQ(found["metrics"]["test loss"], best["test loss"]);

  const auto last =
      json_of({"eval", path("run"), "--checkpoint", "last", "--device", "cpu", "--json"});
  EXPECT_EQ(last["step"], all.back()["step"]);
  EXPECT_EQ(last["metrics"]["test accuracy"], all.back()["test accuracy"]);
  EXPECT_EQ(last["metrics"]["test loss"], all.back()["test loss"]);

  const auto plain =
      json_of({"eval", "--recipe", "mlp", "--checkpoint", path("run/best.safetensors"), "--set",
               "width=16", "--set", "count=960", "--device", "cpu", "--json"});
  EXPECT_EQ(plain["metrics"], found["metrics"]);

  // All 160 images count, whatever the batch size.
  const auto sevens = json_of({"eval", path("run"), "--batch", "7", "--device", "cpu", "--json"});
  EXPECT_EQ(sevens["metrics"]["test accuracy"], found["metrics"]["test accuracy"]);
  EXPECT_EQ(sevens["confusion"], found["confusion"]);
}

TEST_F(CliEval, ClassesHavePrecisionAndRecall) {
  ASSERT_EQ(volta(small("run", {"--quiet"})).code, 0);
  const auto found = json_of({"eval", path("run"), "--device", "cpu", "--json"});
  ASSERT_EQ(found["classes"].size(), 10U);
  ASSERT_EQ(found["confusion"].size(), 10U);
  int all = 0, right = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    int examples = 0, guessed = 0;
    for (std::size_t j = 0; j < 10; ++j) {
      examples += found["confusion"][i][j].get<int>();
      guessed += found["confusion"][j][i].get<int>();
    }
    const int hits = found["confusion"][i][i];
    all += examples;
    right += hits;
    const auto& one = found["classes"][i];
    EXPECT_EQ(one["label"], std::to_string(i));
    EXPECT_EQ(one["examples"], examples);
    EXPECT_EQ(one["recall"].is_null(), examples == 0);
    EXPECT_EQ(one["precision"].is_null(), guessed == 0);
    if (examples > 0) {
      EXPECT_DOUBLE_EQ(one["recall"].get<double>(), 100.0 * hits / examples);
    }
    if (guessed > 0) {
      EXPECT_DOUBLE_EQ(one["precision"].get<double>(), 100.0 * hits / guessed);
    }
  }
  EXPECT_EQ(all, 160);
  EXPECT_DOUBLE_EQ(found["metrics"]["test accuracy"].get<double>(), 100.0 * right / all);

  const Ended text = volta({"eval", path("run"), "--device", "cpu"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.err, "");
  EXPECT_TRUE(has(text.out, "test accuracy")) << text.out;
  EXPECT_TRUE(has(text.out, "precision")) << text.out;

  const Ended narrow = volta({"eval", path("run"), "--device", "cpu", "--quiet"},
                             {.environment = {{"COLUMNS", "20"}, {"LANG", "C"}}});
  for (const std::string& line : lines_of(narrow.out)) EXPECT_LE(line.size(), 20U) << line;
}

TEST_F(CliEval, ATextModel) {
  ASSERT_EQ(volta(text_run("char-lstm", "run", {"--quiet"})).code, 0);
  const auto found = json_of({"eval", path("run"), "--device", "cpu", "--json"});
  EXPECT_EQ(found["metrics"]["validation loss"],
            evaluations("run", "validation loss").back()["validation loss"]);
  EXPECT_FALSE(found.contains("classes"));
}

TEST_F(CliEval, Mistakes) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  const auto eval = [&](std::vector<std::string> more, int code) {
    more.insert(more.begin(), "eval");
    more.insert(more.end(), {"--device", "cpu"});
    return complaint(more, code);
  };
  const std::string other = path("other.safetensors");
  save({{"fc1.weight", zeros({16, 784})}, {"head", zeros({3})}}, other);
  EXPECT_EQ(eval({path("run"), "--checkpoint", other}, 1),
            "volta eval: " + other +
                " has the weights of another model than mlp with these settings: 5 missing "
                "(fc1.bias [16], ...), 1 unexpected (head [3])");
  EXPECT_TRUE(has(eval({path("run"), "--set", "width=8"}, 1), "of another shape (fc1.weight"));
  EXPECT_TRUE(has(eval({path("nothing")}, 2), "no folder of a run"));
  EXPECT_TRUE(has(eval({path("run"), "--checkpoint", path("none.pt")}, 1), "No such file"));
  EXPECT_TRUE(has(eval({path("run"), "--checkpoint", put("words", "no weights")}, 1), "words"));
  EXPECT_TRUE(has(eval({}, 2), "name the folder of a run"));
  EXPECT_TRUE(has(eval({path("run"), "--recipe", "mlp"}, 2), "leave --recipe out"));
  EXPECT_TRUE(has(eval({"--recipe", "mlp"}, 2), "--checkpoint must name a file"));
  EXPECT_TRUE(has(eval({"--recipe", "mpl", "--checkpoint", other}, 2), "did you mean 'mlp'"));
  EXPECT_TRUE(has(eval({path("run"), "--batch", "0"}, 2), "--batch: 0 is not from 1 to 1048576"));
  fs::remove(path("run/best.safetensors"));
  EXPECT_TRUE(has(eval({path("run")}, 1), "has no best.safetensors"));
  put("run/config.json", "{\"n_embd\": 4}");
  EXPECT_TRUE(has(eval({path("run")}, 2), "is no configuration of a run"));
  put("run/config.json", "{");
  EXPECT_TRUE(has(eval({path("run")}, 1), "config.json"));
}

// A run in runs/ can be given by its name.
TEST_F(CliEval, ByName) {
  ASSERT_EQ(volta(small("runs/quick", {"--quiet", "--set", "epochs=1"})).code, 0);
  fs::current_path(folder_);
  EXPECT_EQ(volta({"eval", "quick", "--device", "cpu"}).code, 0);
  fs::current_path("/");
}

}  // namespace
}  // namespace volta::cli
