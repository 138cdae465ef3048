// How a command of the `volta` program is written: one source file with a function that adds a
// subcommand and says what to run. main.cpp parses, runs the chosen command, and turns every error
// into one sentence and an exit code.
//
//   void add_greet(CLI::App& app, Context& context) {
//     struct Options { std::string name = "you"; };
//     const auto options = std::make_shared<Options>();
//     CLI::App* command = add_command(app, "greet", "Say hello", "volta greet --name Ada");
//     command->add_option("--name", options->name, "Whom to greet");
//     add_json(*command, context);
//     on_run(*command, context, [&context, options] { ...; return kSuccess; });
//   }
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "terminal.h"

namespace volta::cli {

using Json = nlohmann::ordered_json;

inline constexpr int kSuccess = 0, kFailure = 1, kUsage = 2;

// A command line that cannot be meant; exit code 2. Failures are Volta's own errors.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a command has around it.
struct Context {
  std::ostream& out;  // results, and nothing else
  Terminal terminal;  // that `out` may be
  std::ostream& err;  // errors, warnings, what is under way
  Terminal err_terminal;
  bool json = false;   // print exactly one JSON document to `out`
  bool quiet = false;  // no warnings, no word about success

  // The command that was chosen; set while parsing.
  std::string command = {};
  std::function<int()> action = {};

  // The one document of a command with --json.
  void print(const Json& document) const;
  // One line on stderr, unless quiet.
  void warn(const std::string& message) const;
};

// A subcommand; examples are the last lines of its help, one command each, `#` begins a comment.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& examples = {});
// --json and --quiet, for the commands where they make sense.
void add_json(CLI::App& command, Context& context);
void add_quiet(CLI::App& command, Context& context);
// What the command does; returns the exit code. Runs after the whole command line was read.
void on_run(CLI::App& command, Context& context, std::function<int()> action);

// Checks of option values, whose messages suggest what was meant.
CLI::Validator one_of(std::vector<std::string> names);
CLI::Validator at_least(double least);             // a finite number
CLI::Validator whole_number(std::uint64_t least);  // not 1.5 or 1e3
CLI::Validator device_name();                      // that can be meant; it may be absent

// A number for JSON, which has no infinities: "inf", "-inf" or "nan" for those.
Json json_number(double value);

void add_bench(CLI::App& app, Context& context);
void add_cache(CLI::App& app, Context& context);
void add_compare(CLI::App& app, Context& context);
void add_convert(CLI::App& app, Context& context);
void add_doctor(CLI::App& app, Context& context);
void add_eval(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_generate(CLI::App& app, Context& context);
void add_info(CLI::App& app, Context& context);
void add_inspect(CLI::App& app, Context& context);
void add_profile(CLI::App& app, Context& context);
void add_train(CLI::App& app, Context& context);
void add_tune(CLI::App& app, Context& context);

}  // namespace volta::cli
