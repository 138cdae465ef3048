// <volta/volta.h>: the headers that it includes, and those that its comment lists.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "support/paths.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& header) {
  std::ifstream file(paths::source_tree() + "/include/" + header);
  EXPECT_TRUE(file) << header;
  return {std::istreambuf_iterator<char>(file), {}};
}

// The texts that a pattern's group matches.
std::set<std::string> found(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at)
    names.insert((*at)[1].str());
  return names;
}

void include(const std::string& header, std::set<std::string>& included) {
  if (!included.insert(header).second) return;
  for (const std::string& next : found(text_of(header), "#include \"(volta/[^\"]+)\""))
    include(next, included);
}

TEST(Headers, TheWholeHeaderNamesWhatItLeavesOut) {
  const std::string umbrella = "volta/volta.h";
  std::set<std::string> included;
  include(umbrella, included);
  std::set<std::string> left_out;
  const fs::path folder = paths::source_tree() + "/include";
  for (const auto& entry : fs::recursive_directory_iterator(folder / "volta")) {
    const std::string name = fs::relative(entry.path(), folder).string();
    // models.h lists the models; detail/ is not for programs.
    if (entry.is_regular_file() && !included.contains(name) && !name.starts_with("volta/models/") &&
        !name.starts_with("volta/detail/"))
      left_out.insert(name);
  }
  EXPECT_EQ(found(text_of(umbrella), "//   <(volta/[a-z_/]+\\.h)>"), left_out);
  std::set<std::string> with_models = included;
  include("volta/models.h", with_models);
  for (const auto& entry : fs::directory_iterator(folder / "volta" / "models")) {
    EXPECT_TRUE(with_models.contains(fs::relative(entry.path(), folder).string()))
        << entry.path() << " is not in models.h";
  }
}

}  // namespace
}  // namespace volta
