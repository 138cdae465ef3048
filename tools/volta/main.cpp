// The `volta` program: parses the command line, runs one command, and turns errors into a sentence
// on stderr and an exit code: 0, 1 for failures, 2 for a wrong command line.
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "help.h"
#include "output/nearest.h"
#include "output/standard_output.h"
#include "output/terminal.h"
#include "volta/error.h"
#include "volta/log.h"
#include "volta/version.h"

namespace volta::cli {
namespace {

// Prints "volta inspect: ..." as one line, whatever the message contains.
int complain(const Context& context, std::string message, int code) {
  for (std::size_t at = message.find('\n'); at != std::string::npos; at = message.find('\n', at))
    message.replace(at, 1, message.find_first_not_of('\n', at) == std::string::npos ? "" : "; ");
  const std::string who = context.command.empty() ? "volta" : "volta " + context.command;
  context.err << who << ": " << printable(message, context.err_terminal) << '\n';
  return code;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// Describes the problem with unused arguments; empty if there are none.
std::string about_extras(const CLI::App& app, const CLI::App& chosen) {
  const std::vector<std::string> extras = app.remaining(true);
  if (extras.empty()) return {};
  const std::string& first = extras.front();
  if (first.starts_with('-') && first.size() > 1) {
    const std::string name = first.substr(0, first.find('='));
    const std::string hint = suggestion(name, option_names(chosen));
    return fmt::format("unknown option '{}'{}", name, hint.empty() ? "; --help lists them" : hint);
  }
  if (&chosen == &app) {
    const std::string hint = suggestion(first, command_names(app));
    return fmt::format("unknown command '{}'{}", first,
                       hint.empty() ? "; volta --help lists them" : hint);
  }
  return fmt::format("unexpected argument '{}'", first);
}

std::string about(const CLI::ParseError& error, const CLI::App& app, const CLI::App& chosen) {
  // An unknown option explains more than the missing argument that it causes.
  if (std::string extras = about_extras(app, chosen); !extras.empty()) return extras;
  std::string message = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool many = message.find("At Most") != std::string::npos;
    return message.substr(0, message.find(':')) +
           (many ? " is given more than once" : " needs a value");
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return message + "; --help says more";
  // "Could not convert: --batch = 1e30"
  constexpr std::string_view kConvert = "Could not convert: ", kEquals = " = ";
  if (const std::size_t equals = message.find(kEquals);
      message.starts_with(kConvert) && equals != std::string::npos) {
    return fmt::format("{}: '{}' is not a whole number, or too large",
                       message.substr(kConvert.size(), equals - kConvert.size()),
                       message.substr(equals + kEquals.size()));
  }
  return message;
}

int usage_error(Context& context, const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App* chosen = &app;
  if (const auto parsed = app.get_subcommands(); !parsed.empty()) chosen = parsed.front();
  if (chosen != &app) context.command = chosen->get_name();
  return complain(context, about(error, app, *chosen), kUsage);
}

// Shows the library's log messages while a command runs.
class LogToContext {
 public:
  explicit LogToContext(const Context& context) {
    set_log_handler([&context](LogLevel level, std::string_view message) {
      if (level == LogLevel::warning) return context.warn(std::string(message));
      context.err << fmt::format("volta {}: {}\n", context.command,
                                 printable(message, context.err_terminal));
    });
  }
  ~LogToContext() { set_log_handler({}); }  // threads may outlive the context
  LogToContext(const LogToContext&) = delete;
  LogToContext& operator=(const LogToContext&) = delete;
};

int run_action(Context& context) {
  const LogToContext log(context);
  try {
    return context.action();
  } catch (const UsageError& error) {
    return complain(context, error.what(), kUsage);
  } catch (const std::bad_alloc&) {
    return complain(context, "there is not enough memory", kFailure);
  } catch (const std::exception& error) {  // includes Volta's own errors
    return complain(context, error.what(), kFailure);
  }
}

// Results that could not be written are a failure, for example because the disk is full.
int flushed(const Context& context, const OutputBuffer& output, int code) {
  context.out.flush();
  if (output.failure() == 0) return code;
  return complain(
      context,
      fmt::format("cannot write to the standard output: {}", std::strerror(output.failure())),
      kFailure);
}

// Flushes results before a message, so that both appear in order.
class Tied {
 public:
  explicit Tied(std::ostream& out) : before_(std::cerr.tie(&out)) {}
  ~Tied() { std::cerr.tie(before_); }
  Tied(const Tied&) = delete;
  Tied& operator=(const Tied&) = delete;

 private:
  std::ostream* before_;
};

// volta help [COMMAND]
int show_help(const Context& context, const CLI::App& app, const std::string& name) {
  if (name.empty()) {  // app.help() would print the help of the parsed command
    context.out << app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal);
    return kSuccess;
  }
  const std::vector<std::string> names = command_names(app);
  if (std::ranges::find(names, name) == names.end()) {
    const std::string hint = suggestion(name, names);
    throw UsageError(fmt::format("unknown command '{}'{}", name,
                                 hint.empty() ? "; volta --help lists them" : hint));
  }
  context.out << app.get_subcommand(name)->help(app.get_name());
  return kSuccess;
}

void add_help(CLI::App& app, Context& context) {
  const auto name = std::make_shared<std::string>();
  CLI::App* command = add_command(app, "help", "Show help, of a command or of all",
                                  "volta help\nvolta help inspect");
  command->add_option("COMMAND", *name, "One of volta --help; default all");
  on_run(*command, context, [&app, &context, name] { return show_help(context, app, *name); });
}

// Opens closed standard descriptors as ones that can be neither read nor written, so that a file
// opened later does not become the standard output.
void fill_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    const int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    // Takes the lowest free descriptor, which is this one.
    const int opened = ::open("/dev/null", flags);
    if (opened > descriptor) ::close(opened);
  }
}

int run(int argc, char** argv) {
  set_locale();
  std::signal(SIGXFSZ, SIG_IGN);  // makes a limit on file sizes an error like a full disk
  std::signal(SIGPIPE, SIG_IGN);  // makes a closed pipe an error too
  fill_standard_descriptors();
  const Terminal terminal = Terminal::of(STDOUT_FILENO);
  OutputBuffer output(STDOUT_FILENO, terminal.interactive);
  std::ostream out(&output);
  const Tied tied(out);
  Context context{.out = out,
                  .terminal = terminal,
                  .err = std::cerr,
                  .err_terminal = Terminal::of(STDERR_FILENO)};

  CLI::App app("Volta, a machine-learning framework: train models, look at files and machines",
               "volta");
  app.formatter(std::make_shared<HelpFormatter>(context.terminal));
  app.set_help_flag("-h,--help", "Show help, of a command too: volta inspect --help");
  app.set_version_flag("--version", std::string("volta ") + version(), "Show the version");
  app.require_subcommand(0, 1);
  app.footer(
      "volta train\nvolta eval runs/digits-cnn-20261116-091500\nvolta explain mlp\n"
      "volta inspect model.safetensors\nvolta doctor --device cuda");
  add_train(app, context);
  add_eval(app, context);
  add_generate(app, context);
  add_explain(app, context);
  add_profile(app, context);
  add_tune(app, context);
  add_bench(app, context);
  add_info(app, context);
  add_doctor(app, context);
  add_inspect(app, context);
  add_compare(app, context);
  add_convert(app, context);
  add_cache(app, context);
  add_help(app, context);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    command->set_help_flag("-h,--help", "Show this help");
    // Doctor checks its --device itself, because it accepts GPUs only.
    CLI::Option* device = command->get_option_no_throw("--device");
    if (device != nullptr && command->get_name() != "doctor") device->check(device_name());
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    context.out << app.help();
    return flushed(context, output, kSuccess);
  } catch (const CLI::CallForVersion& call) {
    context.out << call.what() << '\n';
    return flushed(context, output, kSuccess);
  } catch (const CLI::ParseError& error) {
    return usage_error(context, error, app);
  }
  if (!context.action) {
    context.err << app.help();
    return kUsage;
  }
  return flushed(context, output, run_action(context));
}

}  // namespace
}  // namespace volta::cli

int main(int argc, char** argv) {
  try {
    return volta::cli::run(argc, argv);
  } catch (const std::exception& error) {  // during setup, for example out of memory
    std::cerr << "volta: " << error.what() << '\n';
    return volta::cli::kFailure;
  }
}
