// VOLTA_DUMP_PASSES: the planner's values after lowering and after each pass.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/child.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace fs = std::filesystem;
using testing_child::Folder;
using testing_child::in_child;

// A file: its heading, the lines of its values, and which values are held.
struct Dump {
  std::string heading;
  std::vector<std::string> values;
  std::set<int> held;

  int count(const std::string& text) const {
    int found = 0;
    for (const std::string& line : values) found += line.find(text) != std::string::npos ? 1 : 0;
    return found;
  }
};

// Reads a file and checks that values are numbered in order, have a kind, a dtype and a shape, and
// read only earlier values.
Dump read_dump(const fs::path& path) {
  static const std::regex value(
      R"(%(\d+) = [A-Z][A-Za-z]+(\.[a-z_0-9]+)? [a-z0-9]+ \[[0-9, ]*\].*)");
  static const std::regex held(R"(held: node \d+ is %(\d+))"), number("%(\\d+)");
  Dump dump;
  std::ifstream stream(path);
  std::getline(stream, dump.heading);
  for (std::string line; std::getline(stream, line);) {
    std::smatch match;
    if (std::regex_match(line, match, held)) {
      dump.held.insert(std::stoi(match[1]));
      continue;
    }
    const bool is_value = std::regex_match(line, match, value);
    EXPECT_TRUE(is_value) << path << ": " << line;
    if (!is_value) continue;
    const int id = static_cast<int>(dump.values.size());
    EXPECT_EQ(std::stoi(match[1]), id) << path << ": " << line;
    const std::string operands = line.substr(line.find('='));
    for (std::sregex_iterator in(operands.begin(), operands.end(), number), end; in != end; ++in)
      EXPECT_LT(std::stoi((*in)[1]), id) << path << ": " << line;
    dump.values.push_back(line);
  }
  for (const int id : dump.held) EXPECT_LT(id, static_cast<int>(dump.values.size())) << path;
  return dump;
}

TEST(PassDump, TheirValuesAreDumpedInOrder) {
  const Folder folder;
  in_child({{"VOLTA_DUMP_PASSES", folder / "passes"}}, [] {
    const Tensor a = rand({20, 30}), b = rand({30, 40});
    a.eval();
    b.eval();
    Tensor turned = a.matmul(b).t();
    turned.eval();
    EXPECT_EQ(turned.shape(), Shape({40, 20}));
  });
  if (testing_child::is_child()) return;

  const std::vector<std::string> passes{"lowering",       "lay_out_images", "merge_loops",
                                        "round_products", "turn_products",  "turn_attentions",
                                        "fuse_epilogues", "place_parts"};
  std::map<std::string, std::vector<fs::path>> plans;  // files in order of name
  std::set<fs::path> files;
  for (const auto& file : fs::directory_iterator(folder.path() / "passes"))
    files.insert(file.path());
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    plans[name.substr(0, name.find('.'))].push_back(file);
  }
  int with_product = 0;
  for (const auto& [plan, paths] : plans) {
    ASSERT_EQ(paths.size(), passes.size()) << plan;
    std::vector<Dump> dumps;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      EXPECT_EQ(paths[i].filename(), plan + "." + std::to_string(i) + "-" + passes[i] + ".txt");
      dumps.push_back(read_dump(paths[i]));
      EXPECT_NE(dumps[i].heading.find("after " + passes[i]), std::string::npos);
      EXPECT_FALSE(dumps[i].values.empty()) << paths[i];
      EXPECT_FALSE(dumps[i].held.empty()) << paths[i];
    }
    if (dumps[0].count(" Call.matmul ") == 0) continue;
    ++with_product;
    // The transpose of the product becomes a product of its own.
    EXPECT_EQ(dumps[3].count(" Permute f32 [40, 20] (%"), 1);
    EXPECT_EQ(dumps[3].count(" Call.matmul f32 [40, 20] (%"), 0);
    EXPECT_EQ(dumps[4].count(" Permute f32 [40, 20] (%"), 0);
    EXPECT_EQ(dumps[4].count(" Call.matmul f32 [40, 20] (%"), 1);
    EXPECT_EQ(dumps[4].count("<matmul>"), 2);
  }
  EXPECT_EQ(with_product, 1);
  EXPECT_EQ(plans.size(), 2u);  // the random numbers, and the product
}

TEST(PassDump, AFolderThatCannotBeWrittenStopsNothing) {
  const Folder folder;
  std::ofstream(folder / "file") << "no folder";
  in_child({{"VOLTA_DUMP_PASSES", folder / "file"}},
           [] { EXPECT_EQ((full({3}, 2) * 2).sum().item(), 12); });
}

}  // namespace
}  // namespace volta
