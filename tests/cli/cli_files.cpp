// volta inspect, compare and convert.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "cli_program.h"
#include "volta/creation.h"
#include "volta/io.h"
#include "volta/io/checkpoint.h"
#include "volta/io/npy.h"
#include "volta/models/mlp.h"
#include "volta/safetensors.h"
#include "volta/tensor.h"

namespace volta::cli {
namespace {

using nlohmann::json;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class CliFiles : public Program {
 protected:
  StateDict sample() const {
    return {{"conv.weight", ones({4, 1, 3, 3})},
            {"conv.bias", arange(4.0)},
            {"steps", from_vector<std::int64_t>({1, 2, 3})}};
  }
  std::string saved(const std::string& name, const StateDict& state) const {
    save(state, path(name));
    return path(name);
  }
  std::size_t files_here() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
};

TEST_F(CliFiles, InspectTellsNamesTypesShapesAndSizes) {
  save(sample(), path("m.safetensors"), {.metadata = {{"author", "Ada"}}});
  const json document = json_of({"inspect", path("m.safetensors"), "--json"});
  EXPECT_EQ(document["format"], "safetensors");
  EXPECT_EQ(document["metadata"], json({{"author", "Ada"}}));
  EXPECT_EQ(document["total"]["tensors"], 3);
  EXPECT_EQ(document["total"]["elements"], 36 + 4 + 3);
  EXPECT_EQ(document["total"]["bytes"], 36 * 4 + 4 * 4 + 3 * 8);
  const json tensors =
      json_of({"inspect", path("m.safetensors"), "--json", "--sort", "name"})["tensors"];
  EXPECT_EQ(tensors[0]["name"], "conv.bias");
  EXPECT_EQ(tensors[1]["shape"], json({4, 1, 3, 3}));
  EXPECT_EQ(tensors[2]["dtype"], "i64");
  EXPECT_FALSE(tensors[0].contains("statistics"));
  EXPECT_EQ(
      json_of({"inspect", path("m.safetensors"), "--json", "--sort", "size"})["tensors"][0]["name"],
      "conv.weight");

  const Ended ended = volta({"inspect", path("m.safetensors"), "--filter", "conv.*"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_TRUE(has(ended.out, "conv.weight  f32    [4, 1, 3, 3]  144 B")) << ended.out;
  EXPECT_TRUE(has(ended.out, "2 tensors, 40 elements, 160 B (2 f32)")) << ended.out;
  EXPECT_TRUE(has(ended.out, "author  Ada")) << ended.out;
  EXPECT_FALSE(has(ended.out, "steps"));
}

TEST_F(CliFiles, InspectReadsEveryFormat) {
  const auto format_of = [&](const std::string& file) {
    return json_of({"inspect", file, "--json"})["format"].get<std::string>();
  };
  save_npz(sample(), path("a.npz"));
  EXPECT_EQ(format_of(path("a.npz")), "npz");
  std::filesystem::copy(path("a.npz"), path("no extension"));
  EXPECT_EQ(format_of(path("no extension")), "npz");
  save_npy(ones({2, 3}), path("a.npy"));
  EXPECT_EQ(format_of(path("a.npy")), "npy");
  EXPECT_EQ(format_of(source_tree() + "/tests/golden/torch_files/state_dict.pt"), "PyTorch");
  std::filesystem::create_directory(path("folder"));
  save(sample(), path("folder/model.safetensors"), {.max_shard_bytes = 100});
  const json shards = json_of({"inspect", path("folder"), "--json"});
  EXPECT_EQ(shards["format"], "folder of shards");
  EXPECT_EQ(shards["total"]["tensors"], 3);
  EXPECT_EQ(shards["metadata"]["total_size"], "184");
  models::MLP model({2, 3});
  save_checkpoint(path("run.ckpt"), {.model = model}, {.numbers = {{"epoch", 3}}});
  const json checkpoint = json_of({"inspect", path("run.ckpt"), "--json"});
  EXPECT_EQ(checkpoint["format"], "training checkpoint (safetensors)");
  EXPECT_EQ(checkpoint["metadata"]["number.epoch"], "3");
}

TEST_F(CliFiles, InspectComputesStatistics) {
  saved("m", {{"x", tensor({1, -3, 0, 0, kNan, kInf, -kInf, 6})},
              {"i", from_vector<std::int64_t>({9007199254740993, -5})},
              {"none", zeros({0, 3})},
              {"nan", tensor({kNan})},
              {"half", tensor({0.5, 1.5}).to(DType::bf16)},
              {"mask", from_vector<std::uint8_t>({1, 0, 1}, {.dtype = DType::boolean})}});
  json of;
  const json tensors = json_of({"inspect", path("m"), "--json", "--stats"})["tensors"];
  for (const json& one : tensors) of[one["name"].get<std::string>()] = one["statistics"];
  EXPECT_EQ(of["x"]["nan"], 1);
  EXPECT_EQ(of["x"]["inf"], 2);
  EXPECT_EQ(of["x"]["zeros"], 2);
  EXPECT_EQ(of["x"]["min"], -3.0);
  EXPECT_EQ(of["x"]["max"], 6.0);
  EXPECT_NEAR(of["x"]["mean"].get<double>(), 0.8, 1e-12);
  EXPECT_NEAR(of["x"]["std"].get<double>(), std::sqrt(46 / 5.0 - 0.64), 1e-12);
  EXPECT_EQ(of["i"]["max"].get<std::int64_t>(), 9007199254740993);  // no double can represent it
  EXPECT_EQ(of["i"]["min"], -5);
  EXPECT_TRUE(of["none"]["min"].is_null());
  EXPECT_TRUE(of["nan"]["mean"].is_null());
  EXPECT_EQ(of["nan"]["nan"], 1);
  EXPECT_EQ(of["half"]["mean"], 1.0);
  EXPECT_EQ(of["mask"]["max"], 1);
  EXPECT_EQ(of["mask"]["zeros"], 1);
  const Ended text = volta({"inspect", path("m"), "--stats"});
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(has(text.out, "9007199254740993")) << text.out;
}

TEST_F(CliFiles, AFilterThatFitsNothingSaysWhatIsNear) {
  saved("m", sample());
  EXPECT_EQ(complaint({"inspect", path("m"), "--filter", "conv.wieght"}, 1),
            "volta inspect: none of the 3 tensors in " + path("m") +
                " matches --filter conv.wieght; did you mean 'conv.weight'?");
}

TEST_F(CliFiles, FilesThatAreNoneOrHostile) {
  EXPECT_EQ(complaint({"inspect", path("missing")}, 1),
            "volta inspect: " + path("missing") + ": No such file or directory");
  EXPECT_TRUE(has(complaint({"inspect", path("new\nline\x1b[2J")}, 1), "new; line\\x1b[2J"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(has(complaint({"inspect", path("pipe")}, 1), "neither a file nor a folder"));
  std::filesystem::create_directory(path("empty"));
  EXPECT_EQ(complaint({"inspect", path("empty")}, 1),
            "volta inspect: " + path("empty") +
                ": there is no model in the folder; name the file to read");
  save(sample(), path("empty/b.safetensors"));
  EXPECT_EQ(volta({"inspect", path("empty")}).code, 0);
  save(sample(), path("empty/a.safetensors"));
  EXPECT_TRUE(has(complaint({"inspect", path("empty")}, 1),
                  "the folder has 2 files of tensors, a.safetensors among them"));
  EXPECT_TRUE(has(complaint({"inspect", put("nothing", "")}, 1), "not a model file: it is empty"));
  EXPECT_TRUE(has(complaint({"inspect", put("report.html", "<!doctype html><html>")}, 1),
                  "not a model file: neither safetensors"));
  EXPECT_TRUE(has(complaint({"inspect", put("cut.safetensors", "<!doctype html><html>")}, 1),
                  "header length"));
  complaint({"inspect", put("short", "abc")}, 1);
  complaint({"inspect", put("huge header", "\xff\xff\xff\xff\xff\xff\xff\x7f{}")}, 1);
  complaint({"inspect", put("zip", "PK\x03\x04garbage")}, 1);
  complaint({"inspect", put("npy", "\x93NUMPY\x01")}, 1);
  complaint({"inspect", put("pickle", "\x80\x02}q.")}, 1);
  complaint({"inspect", put("x.index.json", "{\"weight_map\": {\"a\": \"../../etc/passwd\"}}")}, 1);
  complaint({"compare", path("missing"), path("missing")}, 1);
  complaint({"convert", path("short"), path("out.npz")}, 1);
  EXPECT_FALSE(std::filesystem::exists(path("out.npz")));
  const std::string golden = source_tree() + "/tests/golden/torch_files/";
  for (const char* file : {"module.pt", "script.pt"}) complaint({"inspect", golden + file}, 1);
  // A tensor that cannot be read is reported, and not silently lost when converting.
  const Ended mixed = volta({"inspect", golden + "mixed.pt"});
  EXPECT_EQ(mixed.code, 0);
  EXPECT_NE(mixed.err.find("2 tensors were not read"), std::string::npos) << mixed.err;
  EXPECT_NE(volta({"convert", golden + "mixed.pt", path("mixed.npz")}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(path("mixed.npz")));

  const std::string file = saved("m", sample());
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  complaint({"inspect", file}, 1);
  // U+009B begins terminal commands like ESC [; U+202E reverses the direction of the text after it.
  const std::string evil =
      "\x1b]0;owned\x07\n\xc2\x9b"
      "2J\xe2\x80\xae" +
      std::string(3000, 'n');
  saved("evil", {{evil, ones({1})}});
  const Ended ended = volta({"inspect", path("evil"), "--stats"});
  EXPECT_EQ(ended.code, 0);
  const Ended as_json = volta({"inspect", path("evil"), "--json"});
  for (const char* character : {"\x1b", "\xc2\x9b", "\xe2\x80\xae"}) {
    EXPECT_FALSE(has(ended.out, character));
    EXPECT_FALSE(has(as_json.out, character));
  }
  EXPECT_EQ(json::parse(as_json.out)["tensors"][0]["name"], evil);
}

TEST_F(CliFiles, AFileThatMayNotBeReadIsAFailure) {
  const std::string file = saved("m", sample());
  std::filesystem::permissions(file, std::filesystem::perms::none);
  // Root can read everything; another user must be able to run the program.
  const How how = {.as_nobody = true};
  if (volta({"--version"}, how).code != 0) GTEST_SKIP() << "nobody cannot run the program";
  EXPECT_EQ(complaint({"inspect", file}, 1, how),
            "volta inspect: " + file + ": cannot open: Permission denied");
}

TEST_F(CliFiles, EqualFilesCompareEqual) {
  saved("a", sample());
  save_npz(sample(), path("b.npz"));
  EXPECT_EQ(volta({"compare", path("a"), path("b.npz")}).code, 0);
  const Ended quiet = volta({"compare", path("a"), path("b.npz"), "--quiet"});
  EXPECT_EQ(quiet.out + quiet.err, "");
  const json document = json_of({"compare", path("a"), path("b.npz"), "--json"});
  EXPECT_EQ(document["equal"], true);
  EXPECT_EQ(document["tensors"].size(), 3U);
}

TEST_F(CliFiles, CompareTellsAllDifferences) {
  saved("a", {{"same", tensor({1, kNan, kInf})},
              {"near", tensor({1, 2, 4})},
              {"far", tensor({1, kNan, 3, -kInf})},
              {"big", from_vector<std::int64_t>({9007199254740993})},
              {"shape", ones({2, 3})},
              {"type", ones({2})},
              {"mine", ones({1})}});
  saved("b", {{"same", tensor({1, kNan, kInf})},
              {"near", tensor({1, 2.5, 4})},
              {"far", tensor({1, 2, 3, kInf})},
              {"big", from_vector<std::int64_t>({9007199254740992})},
              {"shape", ones({3, 2})},
              {"type", ones({2}, {.dtype = DType::f64})},
              {"yours", ones({1})}});
  const Ended text = volta({"compare", path("a"), path("b")});
  EXPECT_EQ(text.code, 1);
  EXPECT_EQ(text.err, "");
  EXPECT_TRUE(has(text.out, "1 of 6 tensors in both equal")) << text.out;
  const json document = json_of({"compare", path("a"), path("b"), "--json"});
  EXPECT_EQ(document["equal"], false);
  EXPECT_EQ(document["only_in_a"], json({"mine"}));
  EXPECT_EQ(document["only_in_b"], json({"yours"}));
  json of;
  std::vector<std::string> order;
  for (const json& one : document["tensors"]) {
    of[one["name"].get<std::string>()] = one;
    order.push_back(one["name"]);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"shape", "far", "near", "big", "type", "same"}));
  EXPECT_EQ(of["same"]["equal"], true);
  EXPECT_EQ(of["near"]["differing_elements"], 1);
  EXPECT_EQ(of["near"]["max_absolute"], 0.5);
  EXPECT_EQ(of["near"]["max_relative"], 0.2);
  EXPECT_EQ(of["far"]["differing_elements"], 2);
  EXPECT_EQ(of["far"]["max_absolute"], "inf");
  EXPECT_EQ(of["big"]["differing_elements"], 1);  // although doubles do not distinguish them
  EXPECT_EQ(of["shape"]["b"]["shape"], json({3, 2}));
  EXPECT_EQ(of["type"]["differing_elements"], 0);
}

TEST_F(CliFiles, CompareWithinATolerance) {
  saved("a", {{"x", tensor({1, 100})}});
  saved("b", {{"x", tensor({1, 101}).to(DType::f64)}});
  const auto code = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"compare", path("a"), path("b"), "--any-dtype"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return volta(arguments).code;
  };
  EXPECT_EQ(code({}), 1);
  EXPECT_EQ(code({"--rtol", "0.01"}), 0);
  EXPECT_EQ(code({"--rtol", "0.0098"}), 1);
  EXPECT_EQ(code({"--atol", "1"}), 0);
  EXPECT_EQ(code({"--atol", "0.99"}), 1);
  EXPECT_EQ(code({"--atol", "0.5", "--rtol", "0.005"}), 0);
  saved("c", {{"x", tensor({1, kInf})}});
  EXPECT_EQ(volta({"compare", path("a"), path("c"), "--rtol", "1"}).code, 1);
}

TEST_F(CliFiles, ConvertGoesThereAndBack) {
  save(sample(), path("a.safetensors"), {.metadata = {{"author", "Ada"}}});
  EXPECT_EQ(volta({"convert", path("a.safetensors"), path("b.npz"), "--compress"}).code, 0);
  EXPECT_EQ(volta({"convert", path("b.npz"), path("c.safetensors")}).code, 0);
  EXPECT_EQ(volta({"compare", path("a.safetensors"), path("c.safetensors")}).code, 0);
  const std::string torch = source_tree() + "/tests/golden/torch_files/state_dict.pt";
  const Ended ended = volta({"convert", torch, path("t.safetensors")});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(has(ended.out, path("t.safetensors") + ": ")) << ended.out;
  EXPECT_EQ(volta({"compare", torch, path("t.safetensors")}).code, 0);
  EXPECT_EQ(volta({"convert", path("a.safetensors"), path("d.safetensors"), "--quiet"}).out, "");
  EXPECT_EQ(SafetensorsFile(path("d.safetensors")).metadata().at("author"), "Ada");
}

TEST_F(CliFiles, ConvertChangesFloatingTypesOnly) {
  saved("a", {{"x", tensor({1, 0.1, 70000})}, {"n", from_vector<std::int64_t>({7})}});
  const Ended ended = volta({"convert", path("a"), path("h.safetensors"), "--dtype", "f16"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err,
            "volta convert: warning: x: 1 value is too large for f16 and became infinite\n");
  const StateDict half = load(path("h.safetensors"));
  EXPECT_EQ(half.at("x").dtype(), DType::f16);
  EXPECT_EQ(half.at("n").dtype(), DType::i64);
  EXPECT_EQ(half.at("x").to_vector<float>()[0], 1);
  EXPECT_EQ(volta({"convert", path("a"), path("b.safetensors"), "--dtype", "bf16"}).err, "");
  EXPECT_TRUE(has(complaint({"convert", path("b.safetensors"), path("b.npz")}, 1),
                  "x is bf16, which NumPy's files do not have: --dtype f32"));
  EXPECT_EQ(volta({"convert", path("b.safetensors"), path("b.npz"), "--dtype", "f32"}).code, 0);
}

TEST_F(CliFiles, ConvertMapsNames) {
  saved("a", {{"net.h.0.w", arange(6).reshape({2, 3})},
              {"net.h.1.w", ones({2, 2})},
              {"net.h.1.mask", ones({1})},
              {"extra", ones({1})}});
  const json told = json_of({"convert",
                             path("a"),
                             path("b.safetensors"),
                             "--json",
                             "--select",
                             "net.*",
                             "--select",
                             "extra",
                             "--exclude",
                             "*.mask",
                             "--strip",
                             "net.",
                             "--rename",
                             "h.*.w=blocks.*.weight",
                             "--rename",
                             "extra=more",
                             "--transpose",
                             "blocks.0.*",
                             "--prefix",
                             "m."});
  EXPECT_EQ(told["dropped"], 1);
  EXPECT_EQ(told["renamed"]["net.h.0.w"], "m.blocks.0.weight");
  const StateDict state = load(path("b.safetensors"));
  EXPECT_EQ(state.size(), 3U);
  EXPECT_EQ(state.at("m.blocks.0.weight").shape(), (Shape{3, 2}));
  EXPECT_EQ(state.at("m.blocks.0.weight").to_vector<float>(),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(state.contains("m.blocks.1.weight") && state.contains("m.more"));

  const auto refused = [&](const char* option, const char* value) {
    return complaint({"convert", path("a"), path("c.npz"), option, value}, 1);
  };
  EXPECT_TRUE(has(refused("--rename", "extar=x"),
                  "--rename extar: no tensor has such a name; did you mean 'extra'?"));
  EXPECT_TRUE(has(refused("--select", "nothing*"), "--select nothing*: no tensor"));
  EXPECT_TRUE(has(refused("--strip", "foo."), "--strip foo.: no tensor"));
  EXPECT_TRUE(has(refused("--transpose", "extra"), "extra"));  // it has only one axis
  EXPECT_TRUE(has(refused("--rename", "net.*=x"), "x"));       // three tensors would be called x
  EXPECT_FALSE(std::filesystem::exists(path("c.npz")));
}

TEST_F(CliFiles, ConvertReplacesNothingUnlessTold) {
  saved("a", sample());
  const std::string out = put("out.safetensors", "mine");
  EXPECT_EQ(complaint({"convert", path("a"), out}, 2),
            "volta convert: " + out + ": the file exists; --force replaces it");
  EXPECT_EQ(std::filesystem::file_size(out), 4U);
  EXPECT_EQ(volta({"convert", path("a"), out, "--force"}).code, 0);
  EXPECT_EQ(volta({"compare", path("a"), out}).code, 0);
  EXPECT_EQ(volta({"convert", out, out, "--force", "--dtype", "f64"}).code, 0);  // in place
  EXPECT_EQ(load(out).at("conv.bias").dtype(), DType::f64);
  std::filesystem::create_directory(path("d.npz"));
  EXPECT_TRUE(has(complaint({"convert", path("a"), path("d.npz"), "--force"}, 2),
                  "a folder of this name exists"));
  EXPECT_TRUE(has(complaint({"convert", path("a"), path("no/such/folder.npz")}, 1),
                  "there is no folder " + path("no/such")));
}

// The index beside OUT may belong to the model being read, or may have been made so that files are
// removed.
TEST_F(CliFiles, ConvertRemovesNothing) {
  const auto names = [&](const std::string& folder) {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path(folder)))
      all.insert(entry.path().filename().string());
    return all;
  };
  std::filesystem::create_directories(path("model"));
  save(sample(), path("model/model.safetensors"), {.max_shard_bytes = 16});
  const std::set<std::string> shards = names("model");
  ASSERT_GE(shards.size(), 3U);
  const std::string out = path("model/model.safetensors");
  for (const bool force : {false, true}) {
    std::vector<std::string> words = {"convert", out + ".index.json", out};
    if (force) words.emplace_back("--force");
    ASSERT_EQ(volta(words).code, 0);
    std::set<std::string> wanted = shards;
    wanted.insert("model.safetensors");
    EXPECT_EQ(names("model"), wanted);
    EXPECT_EQ(volta({"compare", out, out + ".index.json"}).code, 0);
  }
  saved("a", sample());
  std::filesystem::create_directories(path("out"));
  put("out/precious.safetensors", "mine");
  put("out/m.safetensors.index.json",
      R"({"metadata":{"writer":"volta"},"weight_map":{"a":"precious.safetensors"}})");
  ASSERT_EQ(volta({"convert", path("a"), path("out/m.safetensors")}).code, 0);
  EXPECT_EQ(names("out").size(), 3U);
}

TEST_F(CliFiles, ALinkThatLeadsNowhereIsNotReplaced) {
  saved("a", sample());
  std::filesystem::create_symlink(path("nowhere"), path("link.npz"));
  EXPECT_TRUE(has(complaint({"convert", path("a"), path("link.npz")}, 2), "--force replaces it"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.npz")));
  EXPECT_EQ(volta({"convert", path("a"), path("link.npz"), "--force"}).code, 0);
  EXPECT_EQ(volta({"compare", path("a"), path("link.npz")}).code, 0);
  ASSERT_EQ(mkfifo(path("pipe.npz").c_str(), 0600), 0);
  complaint({"convert", path("a"), path("pipe.npz"), "--force"}, 2);
}

TEST_F(CliFiles, AFullDiskLeavesTheOldFile) {
  saved("a", {{"x", ones({100'000})}});
  const std::string out = put("out.npz", "old");
  const std::size_t before = files_here();
  const How how = {.largest_file = 10'000};
  for (const char* name : {"out.npz", "new.safetensors"}) {
    const std::string line = complaint({"convert", path("a"), path(name), "--force"}, 1, how);
    EXPECT_TRUE(has(line, name) && has(line, "File too large")) << line;
  }
  EXPECT_EQ(std::filesystem::file_size(out), 3U);
  EXPECT_EQ(files_here(), before);
}

TEST_F(CliFiles, FilesWithoutACommonTensor) {
  saved("a", {{"x", ones({2})}});
  saved("b", {{"y", ones({2})}});
  const Ended ended = volta({"compare", path("a"), path("b")});
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(ended.out.ends_with("No tensor is in both files: there is nothing to compare.\n"))
      << ended.out;
}

TEST_F(CliFiles, TheFolderOfARun) {
  std::filesystem::create_directory(path("run"));
  models::MLP model({2, 3});
  save_checkpoint(path("run/last.safetensors"), {.model = model}, {.numbers = {{"step", 3}}});
  EXPECT_EQ(json_of({"inspect", path("run"), "--json"})["format"],
            "folder of training checkpoint (safetensors)");
  save(sample(), path("run/best.safetensors"));
  EXPECT_EQ(json_of({"inspect", path("run"), "--json"})["format"], "folder of safetensors");
  EXPECT_EQ(volta({"compare", path("run"), path("run/best.safetensors")}).code, 0);
}

}  // namespace
}  // namespace volta::cli
