// Files and options that request too many resources.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "../support/peak_memory.h"
#include "cli_runs.h"
#include "train/run_charts.h"
#include "train/run_folder.h"
#include "volta/creation.h"
#include "volta/io.h"

namespace volta::cli {
namespace {

class CliFilesHostile : public Runs {};

TEST_F(CliFilesHostile, ConfigurationsAreNotRecursedInto) {
  ASSERT_EQ(volta(small("run", {"--quiet"})).code, 0);
  const std::string good = read("run/config.json"), deep(100'000, '[');
  for (const std::string& text :
       {"{\"recipe\":" + deep, "{\"a\":" + deep + std::string(100'000, ']') + "}"}) {
    put("run/config.json", text);
    EXPECT_TRUE(has(complaint({"train", "--resume", path("run")}, 1), "is nested deeper than 64"));
    EXPECT_TRUE(has(complaint({"eval", path("run")}, 1), "is nested deeper than 64"));
    EXPECT_TRUE(has(complaint({"generate", path("run")}, 1), "is nested deeper than 64"));
  }
  // A number outside the range of doubles.
  put("run/config.json", "{\"recipe\":\"mlp\",\"settings\":{\"lr\":1e999}}");
  for (const auto& words : {std::vector<std::string>{"train", "--resume", path("run")},
                            {"eval", path("run")},
                            {"generate", path("run")}})
    EXPECT_TRUE(has(complaint(words, 1), "contains a number that is too large")) << words[0];
  // Adding a member to an object searches all of its members.
  std::string members = "{\"recipe\":\"mlp\",\"settings\":{\"a\":0";
  for (int i = 0; i < 80'000; ++i) members += ",\"" + std::to_string(i) + "\":0";
  put("run/config.json", members + "}}");
  for (const auto& words : {std::vector<std::string>{"train", "--resume", path("run")},
                            {"eval", path("run")},
                            {"generate", path("run")}})
    EXPECT_TRUE(has(complaint(words, 1), "has more than 256 members in an object")) << words[0];
  EXPECT_NE(volta({"bench", "--compare", path("run/config.json")}).code, 0);
  put("run/config.json", good + std::string(2 << 20, ' '));
  EXPECT_TRUE(has(complaint({"train", "--resume", path("run")}, 1), "at most 1048576 are read"));
  put("run/config.json", good);
  std::ofstream(path("run/metrics.jsonl"), std::ios::app)
      << "{\"step\":1,\"a\":" << deep << std::string(100'000, ']') << "}\n"
      << "{\"step\":1,\"a\":[1]}\n";
  const Ended ended = volta({"train", "--resume", path("run"), "--set", "epochs=40"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(has(ended.err, "2 lines are no")) << ended.err;
}

// Whether a folder belongs to a run is found out within the limits for reading its files.
TEST_F(CliFilesHostile, FoldersAreLookedAtWithinLimits) {
  constexpr std::uint64_t kMost = 400'000'000;
  const std::string deep(20'000'000, '[');
  for (const char* name : {"config.json", "metrics.jsonl"}) {
    const std::string folder = std::string("of ") + name;
    std::filesystem::create_directory(path(folder));
    put(folder + "/" + name, deep);
    const Ended ended = volta(small(folder));
    EXPECT_EQ(ended.code, 2);
    EXPECT_TRUE(has(ended.err, "was not written by a run")) << ended.err;
    EXPECT_LT(ended.peak_bytes, kMost) << name;
  }
}

TEST_F(CliFilesHostile, SettingsThatSizeSomethingHaveAnEnd) {
  for (const char* setting : {"layers", "width", "heads", "length", "batch", "workers", "epochs",
                              "steps", "warmup", "evaluate_every"}) {
    for (const char* value : {"4294967296", "-1", "1.5"}) {
      const std::string message =
          complaint({"train", "char-gpt", "--set", std::string(setting) + "=" + value}, 2);
      EXPECT_TRUE(has(message, std::string(setting) + " must be a whole number from ")) << message;
      EXPECT_TRUE(has(message, std::string("got '") + value + "'")) << message;
    }
  }
  ASSERT_EQ(volta(small("run", {"--quiet"})).code, 0);
  std::string config = read("run/config.json");
  const std::size_t at = config.find("\"batch\": \"");
  ASSERT_NE(at, std::string::npos);
  config.insert(at + 10, "4294967296");
  put("run/config.json", config);
  EXPECT_TRUE(
      has(complaint({"train", "--resume", path("run")}, 2), "batch must be a whole number"));
}

TEST_F(CliFilesHostile, OptionsThatSizeSomethingHaveAnEnd) {
  struct Option {
    std::vector<std::string> command;
    std::string range;
  };
  for (const auto& [command, range] : {Option{{"eval", "run", "--batch"}, "1 to 1048576"},
                                       Option{{"generate", "run", "--tokens"}, "1 to 1000000000"},
                                       Option{{"generate", "run", "--top-k"}, "0 to 1000000000"},
                                       Option{{"profile", "mlp", "--steps"}, "1 to 1000000"},
                                       Option{{"profile", "mlp", "--warmup"}, "0 to 1000000"},
                                       Option{{"profile", "mlp", "--top"}, "1 to 1000000"},
                                       Option{{"tune", "mlp", "--steps"}, "1 to 1000000"}}) {
    for (const char* value : {"4294967296", "9223372036854775807", "9223372036854775808", "-1"}) {
      std::vector<std::string> words = command;
      words.emplace_back(value);
      EXPECT_EQ(complaint(words, 2),
                "volta " + command[0] + ": " + command[2] + ": " + value + " is not from " + range);
    }
  }
}

// A checkpoint that claims to follow a billion steps, which are not repeated. Such a file would
// have no checksums, like old checkpoints.
TEST_F(CliFilesHostile, StepsOfACheckpointAreNotMadeAgain) {
  ASSERT_EQ(volta(small("run", {"--quiet", "--set", "epochs=1"})).code, 0);
  const std::string bytes = read("run/last.safetensors");
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  Json header = Json::parse(bytes.substr(8, length));
  Json& metadata = header["__metadata__"];
  ASSERT_TRUE(metadata.contains("number.step") && metadata.contains("volta.crc32"));
  metadata["number.step"] = "9e8";
  metadata.erase("volta.crc32");
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string begin(8, '\0');
  for (int i = 0; i < 8; ++i) begin[i] = static_cast<char>(text.size() >> (8 * i));
  put("run/last.safetensors", begin + text + bytes.substr(8 + length));
  const auto start = std::chrono::steady_clock::now();
  const Ended ended =
      volta({"train", "--resume", path("run"), "--set", "steps=900000003", "--quiet"});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_LT(took.count(), 20);
  EXPECT_EQ(metrics("run").back()["step"], 900000003);
}

// Measurements are read one at a time. Each file uses its bytes as badly as possible: many lines,
// many names, names written with escapes, and names that are drawn in charts.
TEST_F(CliFilesHostile, MeasurementsTakeFewTimesTheirSize) {
  std::string letters, numbered = R"({"step":1)", escapes = numbered, drawn = numbered;
  for (char c = '!'; c <= '~'; ++c)
    if (c != '"' && c != '\\') letters += std::string(",\"") + c + "\":0";
  for (int i = 0; i < 250; ++i) numbered += fmt::format(",\"{:x}\":0", i);
  for (int i = 1; i < 250; ++i) escapes += fmt::format(",\"\\u{:04x}\":\"\\u{:04x}\"", i, i);
  std::string many = numbered;
  for (int i = 250; many.size() < 65'000; ++i) many += fmt::format(",\"{:x}\":0", i);
  for (const char* name : {"lr", "loss", "memory", "waiting", "perplexity"})
    drawn += std::string(",\"") + name + "\":0";
  for (const auto& [what, line] :
       {std::pair<std::string, std::string>{"steps", R"({"step":1})"},
        {"letters", R"({"step":1)" + letters + "}"},
        {"numbered", numbered + "}"},
        {"escapes", escapes + "}"},
        {"too_many", many + "}"},
        {"drawn", drawn + "}"},
        {"lr", R"({"step":1,"lr":0})"},
        {"text", R"({"step":1,"a":")" + std::string(65'000, 'x') + "\"}"},
        {"empty", ""},
        {"nested", R"({"step":1,"a":[)" + std::string(30'000, '0')}}) {
    std::string text;
    while (text.size() < 3 * kMiB) text += line + "\n";
    std::filesystem::create_directory(path(what));
    put(what + "/config.json", "{}");
    put(what + "/metrics.jsonl", text);
    const RunFolder folder = RunFolder::open(path(what));
    const std::uint64_t peak = peak_bytes([&] {
      // The lines that a resumed run keeps and that its report is made from.
      std::string kept;
      ChartSeries series;
      folder.read_metrics([&](const Json& metric, std::string_view written) {
        kept.append(written).push_back('\n');
        series.add(metric);
      });
      EXPECT_FALSE(series.charts("images").empty());
    });
    RecordProperty(what, fmt::format("{:.2f}", static_cast<double>(peak) / text.size()));
    EXPECT_LT(peak, 6 * text.size() + 4 * kMiB) << what;
  }
}

TEST_F(CliFilesHostile, GlobsEnd) {
  save({{std::string(2000, 'a'), ones({1})}}, path("a.safetensors"));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(has(complaint({"convert", path("a.safetensors"), path("b.safetensors"), "--rename",
                             "*a*a*a*a*a*a*b=x*"},
                            1),
                  "no tensor has such a name"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20);
  ASSERT_EQ(
      volta({"convert", path("a.safetensors"), path("b.safetensors"), "--rename", "aa*=b*"}).code,
      0);
  EXPECT_EQ(load(path("b.safetensors")).begin()->first, "b" + std::string(1998, 'a'));
}

TEST_F(CliFilesHostile, PipesAreNotWaitedFor) {
  std::filesystem::create_directory(path("run"));
  ASSERT_EQ(mkfifo(path("run/config.json").c_str(), 0600), 0);
  for (const auto& words : {std::vector<std::string>{"train", "--resume", path("run")},
                            {"eval", path("run")},
                            {"generate", path("run")},
                            {"bench", "--compare", path("run/config.json")}}) {
    EXPECT_TRUE(has(complaint(words, 1), "not a regular file")) << words[0];
  }
  // A pipe in the place of a finished run's report.
  ASSERT_EQ(volta(small("ended", {"--quiet", "--set", "epochs=1"})).code, 0);
  std::filesystem::remove(path("ended/report.html"));
  ASSERT_EQ(mkfifo(path("ended/report.html").c_str(), 0600), 0);
  const std::string sentence = complaint({"train", "--resume", path("ended")}, 1);
  EXPECT_TRUE(has(sentence, path("ended/report.html") + ": cannot read: not a regular file"))
      << sentence;
}

}  // namespace
}  // namespace volta::cli
