// volta doctor: checks GPUs step by step in a child process and gives advice.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "child.h"
#include "command.h"
#include "commands/doctor_steps.h"
#include "output/nearest.h"
#include "output/terminal.h"
#include "volta/device.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::cli {
namespace {

constexpr const char* kStepsCommand = "doctor-steps";

struct DoctorOptions {
  std::string device;
  double timeout = 120;
};

enum class Outcome { ok, failed, untried };
struct DoctorResult {
  const DoctorStep* step;
  Outcome outcome = Outcome::untried;
  std::string detail, advice;
};

const char* name_of(Outcome outcome) {
  return outcome == Outcome::ok ? "ok" : outcome == Outcome::failed ? "failed" : "not tried";
}

// Parses "cuda" or "opencl:1".
DoctorTarget target_of(const std::string& text) {
  const std::string_view family = std::string_view(text).substr(0, text.find(':'));
  DoctorTarget target;
  if (family == "opencl") {
    target.family = DeviceType::opencl;
  } else if (family != "cuda") {
    throw UsageError(fmt::format("--device: '{}' is not one of cuda, opencl, cuda:N, opencl:N{}",
                                 text, suggestion(family, {"cuda", "opencl"})));
  }
  if (family.size() == text.size()) return target;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + family.size() + 1, end, target.index);
  if (failure != std::errc() || stop != end || target.index < 0 || target.index > 255)
    throw UsageError(fmt::format("--device: '{}' does not end with a number from 0 to 255", text));
  return target;
}

std::string name_of(const DoctorTarget& target) {
  return fmt::format("{}:{}", target.family == DeviceType::cuda ? "cuda" : "opencl", target.index);
}

// ---- The child reports one JSON document per line for each step.

int run_steps(const DoctorTarget& target, int reports) {
  // Closed in compilers that it starts, so it ends with this process.
  ::fcntl(reports, F_SETFD, FD_CLOEXEC);
  std::string warnings;
  set_log_handler([&warnings](LogLevel level, std::string_view message) {
    if (level >= LogLevel::warning) warnings += fmt::format("; {}", message);
  });
  for (const DoctorStep& step : doctor_steps()) {
    Json report = {{"step", step.name}};
    warnings.clear();
    try {
      report["ok"] = true;
      report["detail"] = step.check(target) + warnings;
    } catch (const std::exception& error) {
      report["ok"] = false;
      report["detail"] = error.what() + warnings;
    }
    const std::string line = report.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    if (::write(reports, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      return kFailure;  // the parent has ended
    if (!report["ok"]) return kSuccess;
  }
  return kSuccess;
}

// ---- The parent.

void fail(DoctorResult& result, std::string detail, std::string advice) {
  result.outcome = Outcome::failed;
  result.detail = std::move(detail);
  result.advice = std::move(advice);
}

// Waits for the result of the current step. Returns false if no further step can follow.
bool hear(Child& child, DoctorResult& result, const DoctorTarget& target, double timeout) {
  constexpr double kLongest = 24 * 3600;
  const Child::Report report = child.next(
      std::chrono::milliseconds(static_cast<std::int64_t>(std::min(timeout, kLongest) * 1000)));
  if (report.state == Child::State::late) {
    fail(result, fmt::format("no answer after {} seconds", timeout),
         doctor_advice_when_late(target, timeout));
    return false;
  }
  if (report.state == Child::State::ended) {
    std::string detail = child.how_it_ended();
    if (detail.empty()) detail = "the process ended without a word";
    if (const std::string words = child.last_words(); !words.empty())
      detail += fmt::format("; it printed last: {}", words);
    fail(result, detail, doctor_advice_after_crash(target));
    return false;
  }
  const Json told = Json::parse(report.line, nullptr, false);
  if (!told.is_object() || told.value("step", "") != result.step->name) {
    fail(result, "the process reported something unreadable", doctor_advice_after_crash(target));
    return false;
  }
  result.detail = told.value("detail", "");
  if (!told.value("ok", false)) {
    fail(result, result.detail, doctor_advice(target, result.step->name, result.detail));
    return false;
  }
  result.outcome = Outcome::ok;
  result.advice = doctor_hint(target, result.step->name, result.detail);
  return true;
}

void print_line(const Context& context, const DoctorResult& result) {
  const Terminal& terminal = context.terminal;
  const auto mark = [&] {
    const std::string text = fmt::format("{:<10}", name_of(result.outcome));
    if (result.outcome == Outcome::ok) return terminal.green(text);
    return result.outcome == Outcome::failed ? terminal.red(text) : terminal.dim(text);
  };
  constexpr int kIndent = 12;
  std::string text = result.step->title;
  if (!result.detail.empty()) text += ": " + result.detail;
  const int indent = terminal.columns >= 60 ? kIndent : 2;
  context.out << "  " << mark() << (indent == kIndent ? "" : "\n  ")
              << wrapped(printable(text, terminal), terminal.columns, indent) << '\n';
  if (!result.advice.empty())
    context.out << std::string(static_cast<std::size_t>(indent), ' ')
                << terminal.bold(wrapped(result.advice, terminal.columns, indent)) << '\n';
  context.out.flush();  // the next step may take long
}

std::vector<DoctorResult> examine(const Context& context, const DoctorTarget& target,
                                  double timeout) {
  if (!context.json) context.out << context.terminal.bold(name_of(target)) << '\n' << std::flush;
  std::vector<DoctorResult> results;
  Child child({kStepsCommand, name_of(target)});
  bool going = true;
  for (const DoctorStep& step : doctor_steps()) {
    DoctorResult& result =
        results.emplace_back(DoctorResult{.step = &step, .detail = {}, .advice = {}});
    if (going) going = hear(child, result, target, timeout);
    if (!context.json) print_line(context, result);
  }
  return results;
}

bool is_well(const std::vector<DoctorResult>& results) {
  for (const DoctorResult& result : results)
    if (result.outcome != Outcome::ok) return false;
  return true;
}

int run_doctor(const Context& context, const DoctorOptions& options) {
  std::vector<DoctorTarget> targets;
  if (!options.device.empty()) {
    targets = {target_of(options.device)};
  } else {
    targets = {{.family = DeviceType::cuda}, {.family = DeviceType::opencl}};
  }
  Json document = Json::array();
  int well = 0;
  for (const DoctorTarget& target : targets) {
    const std::vector<DoctorResult> results = examine(context, target, options.timeout);
    if (is_well(results)) ++well;
    Json steps = Json::array();
    for (const DoctorResult& result : results)
      steps.push_back({{"step", result.step->name},
                       {"result", name_of(result.outcome)},
                       {"detail", result.detail},
                       {"advice", result.advice}});
    document.push_back(
        {{"device", name_of(target)}, {"ok", is_well(results)}, {"steps", std::move(steps)}});
  }
  if (context.json) {
    context.print(document);
  } else if (options.device.empty()) {
    context.out << wrapped(well > 0 ? "A device can be used; volta info tells more."
                                    : "No device can be used. Volta computes on the CPU.",
                           context.terminal.columns, 0)
                << '\n';
  }
  return well > 0 ? kSuccess : kFailure;
}

}  // namespace

void add_doctor(CLI::App& app, Context& context) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = add_command(
      app, "doctor",
      "Check a GPU set-up step by step, from the driver to a training step, and say what to do. "
      "Exits with 0 where a device passes all steps",
      "volta doctor\nvolta doctor --device cuda\nvolta doctor --device opencl:1 --json");
  command->add_option("--device", options->device, "cuda, opencl, or one of their devices: cuda:1")
      ->type_name("DEVICE");
  command->add_option("--timeout", options->timeout, "Seconds that one step may take")
      ->check(at_least(0.1))
      ->capture_default_str();
  add_json(*command, context);
  on_run(*command, context, [&context, options] { return run_doctor(context, *options); });

  struct StepOptions {
    std::string device;
    int reports = -1;
  };
  const auto steps = std::make_shared<StepOptions>();
  CLI::App* child = add_command(app, kStepsCommand, "The child process of volta doctor");
  child->group("");  // hidden in the list of commands
  child->add_option("DEVICE", steps->device)->required();
  child->add_option("DESCRIPTOR", steps->reports)->required();
  on_run(*child, context, [steps] { return run_steps(target_of(steps->device), steps->reports); });
}

}  // namespace volta::cli
