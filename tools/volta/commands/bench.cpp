// volta bench: the speed of this machine through Volta, in a few numbers per device.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "command.h"
#include "commands/bench_cases.h"
#include "glob.h"
#include "json_file.h"
#include "output/table.h"
#include "output/units.h"
#include "volta/data/progress.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/version.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

struct BenchOptions {
  std::vector<std::string> devices, only;
  bool quick = false;
  std::string compare;
  std::optional<double> fail_below;
};

struct Result {
  std::string name, what, unit;
  bool lower_is_better = false;
  double value = 0, low = 0, high = 0;  // the median and the quartiles
  int runs = 0;
  std::optional<double> before = {};

  // The speed relative to the earlier result.
  std::optional<double> ratio() const {
    if (!before || *before <= 0 || value <= 0) return std::nullopt;
    return lower_is_better ? *before / value : value / *before;
  }
};

struct DeviceResults {
  Device device;
  std::vector<Result> results;
};

constexpr double kQuickSeconds = 0.2, kSeconds = 0.8;  // time per case, not counting warm-up

std::vector<Device> chosen_devices(const BenchOptions& options) {
  if (options.devices.empty()) return devices();
  std::vector<Device> chosen;
  for (const std::string& name : options.devices) chosen.push_back(Device::parse(name));
  return chosen;
}

bool is_asked(const BenchOptions& options, const std::string& name) {
  return options.only.empty() || std::ranges::any_of(options.only, [&](const std::string& glob) {
           return glob_matches(glob, name);
         });
}

std::vector<BenchCase> chosen_cases(const BenchOptions& options, Device device) {
  std::vector<BenchCase> cases = bench_cases(device);
  std::erase_if(cases, [&](const BenchCase& one) { return !is_asked(options, one.name); });
  return cases;
}

Result measured(const BenchCase& one, Device device, const BenchOptions& options) {
  const BenchStep step = one.make();
  const Timing time = time_step(step.run, device, options.quick ? kQuickSeconds : kSeconds);
  Result result{.name = one.name, .what = one.what, .unit = step.unit, .runs = time.blocks};
  result.lower_is_better = step.work == 0;
  const auto value = [&](double seconds) {
    return result.lower_is_better ? seconds : step.work / seconds;
  };
  result.value = value(time.median);
  result.low = value(result.lower_is_better ? time.low : time.high);
  result.high = value(result.lower_is_better ? time.high : time.low);
  return result;
}

DeviceResults measured(const Context& context, const BenchOptions& options, Device device) {
  DeviceResults all{device, {}};
  const std::vector<BenchCase> cases = chosen_cases(options, device);
  ProgressBar bar("bench " + to_string(device), static_cast<std::int64_t>(cases.size()),
                  {.terminal = context.err_terminal.interactive,
                   .enabled = !context.quiet && context.err_terminal.interactive});
  for (const BenchCase& one : cases) {
    bar.set_text(one.name);
    try {
      all.results.push_back(measured(one, device, options));
    } catch (const Error& error) {  // too little memory or a failing library: the other cases go on
      context.warn(fmt::format("{} on {}: {}", one.name, to_string(device), error.what()));
    }
    bar.advance();
  }
  bar.finish();
  return all;
}

// ---- Earlier results.

struct EarlierResult {
  std::string name, what;
  double value = 0;
};
struct EarlierDevice {
  std::string device, hardware;
  std::vector<EarlierResult> results;
};
using Earlier = std::vector<EarlierDevice>;

Earlier read_results(const std::string& path) {
  constexpr std::uint64_t kMaxBytes = 16 << 20;
  const Json json = parse_json_text(text_of_file(path, kMaxBytes)).value_or(Json());
  Earlier earlier;
  try {
    for (const Json& one : json.at("devices")) {
      EarlierDevice& device = earlier.emplace_back(EarlierDevice{
          one.at("device").get<std::string>(), one.at("name").get<std::string>(), {}});
      for (const Json& entry : one.at("results")) {
        device.results.push_back({entry.at("name").get<std::string>(),
                                  entry.at("what").get<std::string>(),
                                  entry.at("value").get<double>()});
      }
    }
  } catch (const Json::exception&) {
    throw IoError(fmt::format("{} is no result of volta bench --json", path));
  }
  return earlier;
}

std::optional<double> found(const Earlier& earlier, Device device, const Result& result) {
  for (const EarlierDevice& one : earlier) {
    if (one.device != to_string(device)) continue;
    for (const EarlierResult& entry : one.results) {
      // Results for another size cannot be compared.
      if (entry.name == result.name && entry.what == result.what) return entry.value;
    }
  }
  return std::nullopt;
}

std::string hardware_of(const Earlier& earlier, Device device) {
  for (const EarlierDevice& one : earlier)
    if (one.device == to_string(device)) return one.hardware;
  return {};
}

// Lists cases such as "copy on cuda:0" that have an earlier result and were requested, but failed
// now.
std::vector<std::string> missing(const Earlier& earlier, const BenchOptions& options,
                                 const std::vector<DeviceResults>& all) {
  std::vector<std::string> names;
  for (const EarlierDevice& before : earlier) {
    const auto now = std::ranges::find_if(
        all, [&](const DeviceResults& one) { return to_string(one.device) == before.device; });
    if (now == all.end() && !options.devices.empty()) continue;
    for (const EarlierResult& entry : before.results) {
      const auto is_it = [&](const Result& result) { return result.name == entry.name; };
      const bool asked = is_asked(options, entry.name);
      if (asked && (now == all.end() || std::ranges::none_of(now->results, is_it)))
        names.push_back(fmt::format("{} on {}", entry.name, before.device));
    }
  }
  return names;
}

void compare(const Context& context, const Earlier& earlier, const std::string& path,
             std::vector<DeviceResults>& all) {
  bool any = false;
  for (DeviceResults& one : all) {
    const std::string before = hardware_of(earlier, one.device);
    if (!before.empty() && before != one.device.name()) {
      context.warn(
          fmt::format("{} was {}, now it is {}", to_string(one.device), before, one.device.name()));
    }
    for (Result& result : one.results) {
      result.before = found(earlier, one.device, result);
      any = any || result.before.has_value();
    }
  }
  if (!any)
    throw ArgumentError(fmt::format("{} has none of the results that were measured now", path));
}

// Returns exit code 1 and prints a line if a case is slower or no longer has a result.
int judged(const Context& context, const BenchOptions& options, const Earlier& earlier,
           const std::vector<DeviceResults>& all) {
  if (!options.fail_below) return kSuccess;
  std::vector<std::string> problems;
  for (const DeviceResults& one : all) {
    for (const Result& result : one.results) {
      const std::optional<double> ratio = result.ratio();
      if (!ratio || *ratio >= *options.fail_below) continue;
      problems.push_back(fmt::format("{} on {}: {:.3g} times as fast as before, asked for {:g}",
                                     result.name, to_string(one.device), *ratio,
                                     *options.fail_below));
    }
  }
  for (const std::string& name : missing(earlier, options, all))
    problems.push_back(fmt::format("{}: measured before, and not now", name));
  if (problems.empty()) return kSuccess;
  context.err << printable(fmt::format("volta bench: {}", fmt::join(problems, "; ")),
                           context.err_terminal)
              << '\n';
  return kFailure;
}

// ---- Output.

// "12.3 GB/s", "3.4 us"; in narrow terminals "12.3 G/s".
std::string shown(const Result& result, const Terminal& terminal) {
  constexpr int kNarrow = 40;
  const bool brief = terminal.wraps && terminal.columns < kNarrow;
  const double value = result.value;
  if (!result.lower_is_better) return human_rate(value, brief ? "" : result.unit.c_str());
  return value < 1e-3 ? fmt::format("{:.3g} us", 1e6 * value)
                      : fmt::format("{:.3g} ms", 1e3 * value);
}

Json json_of(const std::vector<DeviceResults>& all) {
  Json list = Json::array();
  for (const DeviceResults& one : all) {
    Json results = Json::array();
    for (const Result& result : one.results) {
      Json entry = {{"name", result.name},
                    {"what", result.what},
                    {"value", result.value},
                    {"unit", result.lower_is_better ? "s" : result.unit + "/s"},
                    {"better", result.lower_is_better ? "lower" : "higher"},
                    {"low", result.low},
                    {"high", result.high},
                    {"runs", result.runs}};
      if (const std::optional<double> ratio = result.ratio()) {
        entry["before"] = *result.before;
        entry["ratio"] = *ratio;
      }
      results.push_back(std::move(entry));
    }
    list.push_back({{"device", to_string(one.device)},
                    {"name", one.device.name()},
                    {"results", std::move(results)}});
  }
  return {{"version", version()}, {"threads", num_threads()}, {"devices", std::move(list)}};
}

void print_text(const Context& context, const DeviceResults& all, bool compared) {
  context.out << context.terminal.bold(wrapped(
                     printable(fmt::format("{}: {}", to_string(all.device), all.device.name()),
                               context.terminal),
                     context.terminal.columns, 2))
              << '\n';
  std::vector<Column> columns = {{.title = "case", .importance = 5, .shortens = true},
                                 {.title = "speed", .align = Align::right, .importance = 4},
                                 {.title = "spread", .align = Align::right, .importance = 2},
                                 {.title = "of", .importance = 1, .shortens = true}};
  if (compared)
    columns.insert(columns.begin() + 2, {.title = "ratio", .align = Align::right, .importance = 3});
  Table table(columns);
  for (const Result& result : all.results) {
    std::vector<std::string> cells = {
        result.name, shown(result, context.terminal),
        fmt::format("{:.0f}%", 100 * (result.high - result.low) / result.value), result.what};
    if (compared) {
      const std::optional<double> ratio = result.ratio();
      cells.insert(cells.begin() + 2, ratio ? fmt::format("{:.2f}", *ratio) : "-");
    }
    table.add(std::move(cells));
  }
  table.print(context.out, context.terminal, 2);
}

int run_bench(const Context& context, const BenchOptions& options) {
  if (options.fail_below && options.compare.empty())
    throw UsageError("--fail-below needs --compare FILE: what to compare with");
  // The file is read first, before minutes are spent on measurements.
  std::optional<Earlier> earlier;
  if (!options.compare.empty()) earlier = read_results(options.compare);
  const std::vector<Device> where = chosen_devices(options);
  std::size_t cases = 0;
  for (const Device device : where) cases += chosen_cases(options, device).size();
  if (cases == 0) {
    std::vector<std::string> names;
    for (const BenchCase& one : bench_cases(where.front())) names.push_back(one.name);
    throw UsageError(fmt::format("--only {} matches no case; there are {}",
                                 fmt::join(options.only, ", "), fmt::join(names, ", ")));
  }
  std::vector<DeviceResults> all;
  bool any = false;
  for (const Device device : where) {
    all.push_back(measured(context, options, device));
    any = any || !all.back().results.empty();
  }
  if (!any) throw BackendError("nothing could be measured");
  if (earlier) compare(context, *earlier, options.compare, all);
  if (context.json) {
    context.print(json_of(all));
  } else {
    for (const DeviceResults& one : all) print_text(context, one, earlier.has_value());
  }
  return judged(context, options, earlier.value_or(Earlier{}), all);
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
  const auto options = std::make_shared<BenchOptions>();
  CLI::App* command = add_command(
      app, "bench", "Measure this machine: bandwidth, products, launches, training steps",
      "volta bench                                  # every device, about 20 s each\n"
      "volta bench --device cuda --only 'matmul*'\n"
      "volta bench --json > before.json\n"
      "volta bench --compare before.json --fail-below 0.9");
  command->add_option("--device", options->devices, "Only this one; repeatable; default all")
      ->allow_extra_args(false);
  command->add_option("--only", options->only, "Only cases whose name matches; repeatable")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command->add_flag("--quick", options->quick, "A quarter of the time, with more spread");
  command->add_option("--compare", options->compare, "Show ratios to an earlier --json result")
      ->type_name("FILE");
  command
      ->add_option("--fail-below", options->fail_below,
                   "Exit with 1 where a ratio is below, 0.9 for a tenth slower, or a case has no "
                   "result any more")
      ->check(at_least(0));
  add_json(*command, context);
  add_quiet(*command, context);
  on_run(*command, context, [&context, options] { return run_bench(context, *options); });
}

}  // namespace volta::cli
