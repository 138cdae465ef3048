// volta info and cache.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "cli_program.h"
#include "volta/version.h"

namespace volta::cli {
namespace {

using nlohmann::json;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CliMachine : public Program {
 protected:
  How cached() const { return {.environment = {{"VOLTA_CACHE_DIR", path("cache")}}}; }
};

TEST_F(CliMachine, InfoTellsBuildDevicesAndLibraries) {
  const json info = json_of({"info", "--json"});
  EXPECT_EQ(info["version"], version());
  EXPECT_FALSE(info["build"]["compiler"].get<std::string>().empty());
  EXPECT_FALSE(info["build"]["options"].empty());
  EXPECT_EQ(info["devices"][0]["device"], "cpu");
  EXPECT_GT(info["devices"][0]["memory"].get<double>(), 1e8);
  EXPECT_GT(info["devices"][0]["free_memory"].get<double>(), 0);
  std::set<std::string> known;
  for (const json& library : info["libraries"]) {
    known.insert(library["name"]);
    // Each library has a version, or the reason for its absence.
    EXPECT_TRUE(library["version"].is_string() || !library["note"].get<std::string>().empty())
        << library;
  }
  for (const char* name : {"oneDNN", "Highway", "zlib", "libpng"})
    EXPECT_TRUE(known.contains(name)) << name;
  // A family is present, or there is a reason for its absence.
  for (const char* family : {"cuda", "opencl"}) {
    int found = 0;
    for (const json& device : info["devices"])
      if (has(device["device"], family)) found = 1;
    for (const json& absent : info["absent"])
      if (absent["family"] == family) found += absent["why"].get<std::string>().empty() ? 0 : 1;
    EXPECT_EQ(found, 1) << family;
  }
}

TEST_F(CliMachine, InfoSaysWhyADeviceIsAbsent) {
  const How hidden = {
      .environment = {{"OCL_ICD_VENDORS", "/no/such/folder"}, {"VOLTA_FALLBACK", "cpu"}}};
  const Ended ended = volta({"info"}, hidden);
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_TRUE(has(ended.out, "opencl is absent: ")) << ended.out;
}

TEST_F(CliMachine, TheEnvironmentIsToldAsItIs) {
  const json list =
      json_of({"info", "--env", "--json"},
              {.environment = {{"VOLTA_LOG", "error"}, {"COLUMNS", "33"}}})["environment"];
  std::set<std::string> told;
  json values;
  for (const json& variable : list) {
    EXPECT_TRUE(told.insert(variable["name"]).second) << variable["name"];
    EXPECT_FALSE(variable["meaning"].get<std::string>().empty());
    values[variable["name"].get<std::string>()] = variable["value"];
  }
  EXPECT_EQ(values["VOLTA_LOG"], "error");
  EXPECT_EQ(values["COLUMNS"], "33");
  EXPECT_TRUE(values["VOLTA_ONEDNN"].is_null());

  // docs/environment.md lists the same variables, except those of tests and scripts.
  const std::string page = content(source_tree() + "/docs/environment.md");
  const std::string tables = page.substr(0, page.find("## Tests and scripts"));
  std::set<std::string> documented;
  const std::regex first_cell("(^|\n)\\| (`[^|]*`) \\|"), name("`([A-Z_0-9]+)`");
  for (std::sregex_iterator row(tables.begin(), tables.end(), first_cell), end; row != end; ++row) {
    const std::string cell = (*row)[2];
    for (std::sregex_iterator one(cell.begin(), cell.end(), name); one != end; ++one)
      documented.insert((*one)[1]);
  }
  EXPECT_EQ(told, documented);

  // The source reads exactly these variables.
  const std::string call = "environment(\"";
  int reads = 0;
  for (const char* folder : {"/src", "/tools"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(source_tree() + folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string text = content(entry.path());
      for (std::size_t at = text.find(call); at != std::string::npos;
           at = text.find(call, at + 1), ++reads) {
        const std::size_t begin = at + call.size();
        const std::string variable = text.substr(begin, text.find('"', begin) - begin);
        EXPECT_TRUE(told.contains(variable)) << entry.path() << ": " << variable;
      }
    }
  }
  EXPECT_GT(reads, 10);
}

TEST_F(CliMachine, CacheShowsAndClearsVoltasFilesOnly) {
  EXPECT_TRUE(has(volta({"cache"}, cached()).out, "0 files"));  // no folder exists yet
  std::filesystem::create_directories(path("cache/folder"));
  const std::string key(32, 'a'), entry = "VOLTAK02" + std::string(100, 'x');
  put("cache/" + key + ".bin", entry);
  put("cache/" + std::string(32, 'b') + ".bin", "VOLTAK01");  // from an earlier version
  put("cache/" + key + ".bin.0123456789abcdef.tmp", "left behind");
  const std::string written =
      put("cache/" + std::string(32, 'c') + ".bin.0123456789abcdef.tmp", "being written");
  const int writer = ::open(written.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  put("cache/" + std::string(32, 'd') + ".bin", "somebody else's");
  put("cache/notes.txt", "mine");
  put("cache/" + std::string(31, 'a') + ".bin", entry);
  std::filesystem::create_symlink(path("cache/notes.txt"),
                                  path("cache/" + std::string(32, 'e') + ".bin"));

  const json shown = json_of({"cache", "--json"}, cached());
  EXPECT_EQ(shown["folder"], path("cache"));
  EXPECT_EQ(shown["cleared"], false);
  EXPECT_EQ(shown["files"].size(), 3U);
  EXPECT_EQ(shown["bytes"], 108 + 8 + 11);
  EXPECT_TRUE(has(volta({"cache"}, cached()).out, "6 entries are there not Volta's"))
      << volta({"cache"}, cached()).out;
  const Ended cleared = volta({"cache", "--clear"}, cached());
  EXPECT_EQ(cleared.code, 0);
  EXPECT_TRUE(has(cleared.out, "removed 3 files, 127 B")) << cleared.out;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("cache")), {}), 6);
  EXPECT_TRUE(has(volta({"cache", "--clear"}, cached()).out, "removed 0 files"));
  ::close(writer);
}

TEST_F(CliMachine, CacheWithoutAFolder) {
  const How nowhere = {
      .environment = {{"VOLTA_CACHE_DIR", ""}, {"XDG_CACHE_HOME", ""}, {"HOME", ""}}};
  EXPECT_TRUE(has(volta({"cache"}, nowhere).out, "no folder"));
  EXPECT_TRUE(json_of({"cache", "--json"}, nowhere)["folder"].is_null());
  put("file", "");
  EXPECT_TRUE(has(complaint({"cache"}, 1, {.environment = {{"VOLTA_CACHE_DIR", path("file")}}}),
                  path("file")));
}

}  // namespace
}  // namespace volta::cli
