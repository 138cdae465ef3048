// How to write a command of the `volta` program: one source file with a function that adds a
// subcommand and its action. main.cpp parses the command line, runs the chosen command, and turns
// every error into one sentence and an exit code.
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
#include <limits>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "output/terminal.h"

namespace volta::cli {

using Json = nlohmann::ordered_json;

inline constexpr int kSuccess = 0, kFailure = 1, kUsage = 2;

// A wrong command line; the exit code is 2. Failures are Volta's own errors.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The environment of a command.
struct Context {
  std::ostream& out;  // results only
  Terminal terminal;  // the terminal of `out`, if it is one
  std::ostream& err;  // errors, warnings and progress
  Terminal err_terminal;
  bool json = false;   // print exactly one JSON document to `out`
  bool quiet = false;  // no warnings and no message about success

  // The chosen command, set while parsing.
  std::string command = {};
  std::function<int()> action = {};

  // Prints the single document of a command with --json.
  void print(const Json& document) const;
  // Prints one line to stderr, unless quiet.
  void warn(const std::string& message) const;
};

// Adds a subcommand. Its help ends with the examples, one command per line; `#` begins a comment.
CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& examples = {});
// Adds --json or --quiet to a command.
void add_json(CLI::App& command, Context& context);
void add_quiet(CLI::App& command, Context& context);
// Sets the action of a command, which returns the exit code and runs after the whole command line
// was parsed.
void on_run(CLI::App& command, Context& context, std::function<int()> action);

// Checks of option values. Their messages suggest the nearest valid value.
CLI::Validator one_of(std::vector<std::string> names);
CLI::Validator at_least(double least);  // a finite number
// A whole number from `least` to `most`, not written as 1.5 or 1e3.
CLI::Validator whole_number(std::int64_t least,
                            std::int64_t most = std::numeric_limits<std::int64_t>::max());
CLI::Validator device_name();  // a valid name; the device may be absent

// A number for JSON, which lacks infinities and NaN: they become "inf", "-inf" and "nan".
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
