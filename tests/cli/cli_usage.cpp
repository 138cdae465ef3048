// Command lines: help, mistakes, exit codes, terminals.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "cli_program.h"
#include "volta/creation.h"
#include "volta/io.h"
#include "volta/version.h"

namespace volta::cli {
namespace {

using testing::Test;

class CliUsage : public Program {};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(CliUsage, Version) {
  const Ended ended = volta({"--version"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, std::string("volta ") + version() + "\n");
}

TEST_F(CliUsage, WithoutACommandThereIsHelpAndAnExitCode) {
  const Ended ended = volta({});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.out, "");
  EXPECT_TRUE(has(ended.err, "Usage") && has(ended.err, "inspect"));
}

TEST_F(CliUsage, EveryCommandHasHelpWithExamples) {
  const std::string all = volta({"--help"}).out;
  EXPECT_FALSE(has(all, "doctor-steps"));
  for (const char* command : {"train", "eval", "generate", "explain", "bench", "info", "doctor",
                              "inspect", "compare", "convert", "cache"}) {
    EXPECT_TRUE(has(all, std::string("  ") + command)) << command;
    const Ended ended = volta({command, "--help"});
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.err, "");
    EXPECT_TRUE(has(ended.out, std::string("Usage\n  volta ") + command)) << ended.out;
    EXPECT_EQ(volta({"help", command}).out, ended.out);
    EXPECT_TRUE(has(ended.out, std::string("Examples\n  volta ") + command)) << ended.out;
    // Examples are meant to be copied and may be long.
    const std::string before_examples = ended.out.substr(0, ended.out.find("Examples"));
    for (const std::string& line : lines_of(before_examples)) EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST_F(CliUsage, MistypedCommandsAndOptionsSuggestWhatWasMeant) {
  EXPECT_EQ(complaint({"inpsect", "x"}, 2),
            "volta: unknown command 'inpsect'; did you mean 'inspect'?");
  EXPECT_EQ(complaint({"frobnicate"}, 2),
            "volta: unknown command 'frobnicate'; volta --help lists them");
  EXPECT_EQ(complaint({"inspect", "file", "--jsno"}, 2),
            "volta inspect: unknown option '--jsno'; did you mean '--json'?");
  EXPECT_EQ(complaint({"inspect", "--stat"}, 2),  // and not that FILE is missing
            "volta inspect: unknown option '--stat'; did you mean '--stats'?");
  EXPECT_EQ(complaint({"inspect", "file", "--sort=sise"}, 2),
            "volta inspect: --sort: 'sise' is not one of name, size; did you mean 'size'?");
  EXPECT_EQ(complaint({"--verison"}, 2),
            "volta: unknown option '--verison'; did you mean '--version'?");
}

TEST_F(CliUsage, OtherMistakes) {
  EXPECT_EQ(complaint({"inspect"}, 2), "volta inspect: FILE is required; --help says more");
  EXPECT_EQ(complaint({"inspect", "a", "b"}, 2), "volta inspect: unexpected argument 'b'");
  EXPECT_EQ(complaint({"inspect", "a", "--sort"}, 2), "volta inspect: --sort needs a value");
  EXPECT_EQ(complaint({"compare", "a", "b", "--rtol", "much"}, 2),
            "volta compare: --rtol: 'much' is not a number");
  EXPECT_EQ(complaint({"compare", "a", "b", "--atol", "-1"}, 2),
            "volta compare: --atol: -1 is less than 0");
  EXPECT_EQ(complaint({"compare", "a", "b", "--atol", "nan"}, 2),
            "volta compare: --atol: 'nan' is not a number");
  EXPECT_EQ(complaint({"convert", "a", "b.npz", "--rename", "x"}, 2),
            "volta convert: --rename: 'x' is not of the form OLD=NEW");
  EXPECT_EQ(complaint({"convert", "a", "b.safetensor"}, 2),
            "volta convert: b.safetensor: the name must end with .safetensors or .npz, which says "
            "what to write; did you mean '.safetensors'?");
  EXPECT_EQ(complaint({"doctor", "--device", "cuba"}, 2),
            "volta doctor: --device: 'cuba' is not one of cuda, opencl, cuda:N, opencl:N; did you "
            "mean 'cuda'?");
  EXPECT_EQ(complaint({"doctor", "--device", "cuda:x"}, 2),
            "volta doctor: --device: 'cuda:x' does not end with a number from 0 to 255");
}

TEST_F(CliUsage, HelpIsACommandToo) {
  EXPECT_EQ(volta({"help"}).out, volta({"--help"}).out);
  EXPECT_EQ(complaint({"help", "inpsect"}, 2),
            "volta help: unknown command 'inpsect'; did you mean 'inspect'?");
  EXPECT_TRUE(has(volta({"help", "help"}).out, "volta help [COMMAND]"));
  EXPECT_TRUE(has(volta({"help", "profile"}).out, "volta profile [RECIPE] [OPTIONS]"));
  EXPECT_TRUE(has(volta({"help", "profile"}).out, "without [50]"));
}

TEST_F(CliUsage, ExamplesFitNarrowTerminalsAndCanBeCopied) {
  for (const char* command : {"train", "generate", "bench", "compare", "convert"}) {
    const std::string help = volta({command, "--help"}, {.environment = {{"COLUMNS", "50"}}}).out;
    const std::vector<std::string> lines = lines_of(help.substr(help.find("\nExamples\n") + 1));
    bool more = false;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      EXPECT_LE(lines[i].size(), 50U) << lines[i];
      EXPECT_EQ(lines[i].starts_with("    "), more) << lines[i];
      more = lines[i].ends_with(" \\");
    }
    EXPECT_FALSE(more);
  }
}

TEST_F(CliUsage, WholeNumbers) {
  const auto refused = [&](const char* text) {
    return complaint({"profile", "mlp", "--steps", text}, 2);
  };
  EXPECT_EQ(refused("1.5"), "volta profile: --steps: '1.5' is not a whole number");
  EXPECT_EQ(refused("1e30"), "volta profile: --steps: '1e30' is not a whole number");
  EXPECT_EQ(refused(""), "volta profile: --steps: '' is not a whole number");
  EXPECT_EQ(refused("-3"), "volta profile: --steps: -3 is not from 1 to 1000000");
  EXPECT_EQ(refused("99999999999999999999999"),
            "volta profile: --steps: 99999999999999999999999 is not from 1 to 1000000");
  EXPECT_EQ(refused("18446744073709551615"),  // does not fit a signed integer
            "volta profile: --steps: 18446744073709551615 is not from 1 to 1000000");
  EXPECT_EQ(complaint({"generate", "x", "--seed", "-1"}, 2),
            "volta generate: --seed: -1 is not from 0 to 9223372036854775807");
  EXPECT_EQ(complaint({"eval", "x", "--batch", "1.5"}, 2),
            "volta eval: --batch: '1.5' is not a whole number");
}

TEST_F(CliUsage, DevicesThatCannotBeMeant) {
  for (const char* command : {"train", "eval", "generate", "explain", "profile", "bench"}) {
    for (const char* device : {"nope", "cpu:1", "cuda:", "cuda:-1", "opencl:x", "cuda:99999999999"})
      EXPECT_EQ(complaint({command, "--device", device, "--json"}, 2),
                std::string("volta ") + command + ": --device: '" + device +
                    "' is not one of cpu, cuda:N, opencl:N, gpu, best");
  }
  EXPECT_TRUE(has(complaint({"explain", "--device", "cuba"}, 2), "did you mean 'cuda'?"));
  EXPECT_TRUE(has(complaint({"explain", "mlp", "--device", "cuda:99"}, 1), "cuda:99"));
}

TEST_F(CliUsage, AFileMayBeNamedLikeACommand) {
  save({{"a", ones({2})}}, path("info"));
  EXPECT_EQ(volta({"inspect", path("info")}).code, 0);
  std::filesystem::current_path(folder_);
  EXPECT_EQ(volta({"inspect", "info"}).code, 0);
  std::filesystem::current_path("/");
}

TEST_F(CliUsage, ColoursAreForTerminals) {
  if (!has_terminals()) GTEST_SKIP() << "there are no terminals here";
  save({{"a", ones({2})}}, path("m"));
  const std::vector<std::string> inspect = {"inspect", path("m")};
  EXPECT_FALSE(has(volta(inspect).out, "\x1b"));
  EXPECT_TRUE(has(volta_on_terminal(inspect, 80).out, "\x1b[1m"));
  EXPECT_FALSE(
      has(volta_on_terminal(inspect, 80, {.environment = {{"NO_COLOR", "1"}}}).out, "\x1b"));
  EXPECT_FALSE(
      has(volta_on_terminal(inspect, 80, {.environment = {{"TERM", "dumb"}}}).out, "\x1b"));
}

TEST_F(CliUsage, TwentyColumnsAreEnough) {
  if (!has_terminals()) GTEST_SKIP() << "there are no terminals here";
  save({{"transformer.h.0.attn.c_attn.weight", ones({3, 4, 5})}, {"b", zeros({2})}}, path("m"),
       {.metadata = {{"a rather long key of metadata", "and its value"}}});
  save({{"transformer.h.0.attn.c_attn.weight", zeros({3, 4, 5})}}, path("n"));
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", "m", "--stats"}, {"compare", "m", "n"}, {"info", "--env"}, {"info"}};
  std::filesystem::current_path(folder_);
  EXPECT_TRUE(
      has(volta({"info"}, {.environment = {{"COLUMNS", "20"}, {"LANG", "C"}}}).out, "  stamp 0."))
      << "in a line of its own";
  for (const auto& command : commands) {
    for (const bool terminal : {false, true}) {
      const How plain = {.environment = {{"COLUMNS", terminal ? "" : "20"},
                                         {"NO_COLOR", "1"},
                                         {"LANG", "C"},
                                         {"OCL_ICD_VENDORS", "/none"},
                                         {"VOLTA_CACHE_DIR", "cache"}}};
      const Ended ended = terminal ? volta_on_terminal(command, 20, plain) : volta(command, plain);
      EXPECT_LE(ended.code, 1) << ended.err;
      EXPECT_FALSE(ended.out.empty());
      for (const std::string& line : lines_of(ended.out)) {
        // A single word, such as a path or a library's name, may be longer.
        const std::size_t first = line.find_first_not_of(' ');
        if (first != std::string::npos && line.find(' ', first) == std::string::npos) continue;
        EXPECT_LE(line.size(), 20U) << command[0] << ": " << line;
      }
    }
  }
  std::filesystem::current_path("/");
}

TEST_F(CliUsage, WithoutAUtf8LocaleEverythingIsAscii) {
  save({{"größe", ones({2})}}, path("m"));
  for (const char* locale : {"C", "", "no_SUCH.locale"}) {
    const Ended ended =
        volta({"inspect", path("m")}, {.environment = {{"LANG", locale}, {"COLUMNS", "20"}}});
    EXPECT_EQ(ended.code, 0);
    EXPECT_TRUE(std::ranges::all_of(ended.out, [](char c) {
      return static_cast<unsigned char>(c) < 0x80;
    })) << ended.out;
  }
  EXPECT_TRUE(has(volta({"inspect", path("m")}).out, "größe"));
  EXPECT_EQ(json_of({"inspect", path("m"), "--json"},
                    {.environment = {{"LANG", "C"}}})["tensors"][0]["name"],
            "größe");
}

TEST_F(CliUsage, ResultsThatCannotBeWrittenAreAFailure) {
  save({{"a", ones({2})}}, path("m"));
  const Ended ended = volta({"inspect", path("m")}, {.out_file = "/dev/full"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.err,
            "volta inspect: cannot write to the standard output: No space left on device\n");
  // Larger than the output that is buffered until the end.
  StateDict many;
  for (int i = 0; i < 2000; ++i) many.add("tensor." + std::to_string(i), ones({1}));
  save(many, path("many"));
  EXPECT_EQ(volta({"inspect", path("many"), "--json"}, {.out_file = "/dev/full"}).err, ended.err);
  // The reader of the output ends early, like `| head -1`, whether or not the parent ignores
  // SIGPIPE.
  for (const bool ignored : {false, true}) {
    const Ended unread =
        volta_during({"inspect", path("many"), "--json"},
                     [](pid_t /*process*/, int out) { ::close(out); }, {.ignore_sigpipe = ignored});
    EXPECT_EQ(unread.code, 1);
    EXPECT_EQ(unread.err, "volta inspect: cannot write to the standard output: Broken pipe\n");
  }
}

// An opened file does not become the standard output.
TEST_F(CliUsage, WithoutAStandardOutput) {
  save({{"a", ones({2})}}, path("m.safetensors"));
  const Ended ended = volta({"inspect", path("m.safetensors")}, {.without_output = true});
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.err, "volta inspect: cannot write to the standard output: Bad file descriptor\n");
  const Ended converted = volta({"convert", path("m.safetensors"), path("n.safetensors"), "--json"},
                                {.without_output = true});
  EXPECT_EQ(converted.code, 1);
  EXPECT_EQ(volta({"compare", path("m.safetensors"), path("n.safetensors")}).code, 0);
  // The event file stays open until the run ends.
  const Ended trained =
      volta({"train", "mlp", "--device", "cpu", "--steps", "2", "--set", "count=64", "--set",
             "workers=0", "--quiet", "--json", "--out", path("run")},
            {.without_output = true});
  EXPECT_EQ(trained.code, 1);
  EXPECT_TRUE(has(trained.err, "Bad file descriptor")) << trained.err;
  for (const auto& entry : std::filesystem::directory_iterator(path("run"))) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(has(text, "saved_step")) << entry.path();
  }
}

// The command is a program like a user's and includes nothing from src.
TEST_F(CliUsage, ItsSourcesIncludePublicHeadersOnly) {
  const std::regex include("#include \"([^\"]+)\"");
  const std::filesystem::path folder = source_tree() + "/tools/volta";
  int seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      ++seen;
      const std::string header = match[1];
      const std::string root =
          header.starts_with("volta/") ? source_tree() + "/include" : folder.string();
      EXPECT_TRUE(std::filesystem::exists(root + "/" + header)) << entry.path() << ": " << header;
      EXPECT_EQ(header.find(".."), std::string::npos);
    }
  }
  EXPECT_GT(seen, 20);
}

}  // namespace
}  // namespace volta::cli
