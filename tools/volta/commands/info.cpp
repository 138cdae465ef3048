// volta info: this build, and the devices and libraries on this machine.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "environment.h"
#include "output/table.h"
#include "output/units.h"
#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/kernel_cache.h"
#include "volta/system_info.h"

namespace volta::cli {
namespace {

constexpr int kVersionColumns = 30;  // some versions are very long; --json prints them in full

struct Family {
  DeviceType type;
  const char* name;
};
constexpr Family kFamilies[] = {
    {DeviceType::cpu, "cpu"}, {DeviceType::cuda, "cuda"}, {DeviceType::opencl, "opencl"}};

struct DeviceReport {
  Device device;
  std::string name;
  std::uint64_t memory = 0;
  std::optional<std::uint64_t> free;
  DeviceCapabilities can;
};

struct CacheReport {
  std::string folder;
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  std::string problem;
};

struct Report {
  BuildInfo build;
  std::vector<DeviceReport> devices;
  std::vector<std::pair<std::string, std::string>> absent;     // family and reason
  std::vector<std::pair<std::string, LibraryInfo>> libraries;  // owner and library
  CacheReport cache;
};

DeviceReport report_on(Device device) {
  DeviceReport report{.device = device,
                      .name = device.name(),
                      .memory = device.total_memory(),
                      .free = {},
                      .can = device.capabilities()};
  try {
    report.free = free_memory(device);
  } catch (const Error&) {
    // A device that cannot be opened is still listed; `volta doctor` explains the problem.
  }
  return report;
}

Report collected() {
  Report report{.build = build_info(), .devices = {}, .absent = {}, .libraries = {}, .cache = {}};
  for (const Device device : devices()) report.devices.push_back(report_on(device));
  for (const auto& [type, name] : kFamilies) {
    if (const std::string why = why_absent(type); !why.empty())
      report.absent.emplace_back(name, why);
    for (const LibraryInfo& library : libraries(type)) report.libraries.emplace_back(name, library);
  }
  for (const LibraryInfo& library : file_libraries())
    report.libraries.emplace_back("files", library);
  report.cache.folder = kernel_cache_folder();
  try {
    for (const KernelCacheFile& file : kernel_cache_files()) {
      ++report.cache.files;
      report.cache.bytes += file.bytes;
    }
  } catch (const IoError& error) {
    report.cache.problem = error.what();
  }
  return report;
}

Json environment_json() {
  Json list = Json::array();
  for (const EnvironmentVariable& variable : environment_variables()) {
    const char* value = std::getenv(std::string(variable.name).c_str());
    list.push_back({{"name", variable.name},
                    {"value", value == nullptr ? Json() : Json(value)},
                    {"read_by", variable.reader},
                    {"meaning", variable.meaning}});
  }
  return list;
}

Json json_of(const Report& report) {
  Json devices = Json::array(), absent = Json::array(), libraries = Json::array();
  for (const DeviceReport& one : report.devices)
    devices.push_back({{"device", to_string(one.device)},
                       {"name", one.name},
                       {"memory", one.memory},
                       {"free_memory", one.free ? Json(*one.free) : Json()},
                       {"gpu", one.can.gpu},
                       {"f64", one.can.f64},
                       {"half_products", one.can.half_products},
                       {"bytes_per_second", one.can.bytes_per_second},
                       {"operations_per_second", one.can.operations_per_second}});
  for (const auto& [family, why] : report.absent)
    absent.push_back({{"family", family}, {"why", why}});
  for (const auto& [user, library] : report.libraries)
    libraries.push_back({{"name", library.name},
                         {"version", library.version.empty() ? Json() : Json(library.version)},
                         {"used_by", user},
                         {"note", library.note}});
  return {{"version", report.build.version},
          {"build",
           {{"stamp", report.build.stamp},
            {"compiler", report.build.compiler},
            {"type", report.build.type},
            {"sanitizer", report.build.sanitizer},
            {"options", report.build.options}}},
          {"threads", num_threads()},
          {"devices", std::move(devices)},
          {"absent", std::move(absent)},
          {"libraries", std::move(libraries)},
          {"cache",
           {{"folder", report.cache.folder.empty() ? Json() : Json(report.cache.folder)},
            {"files", report.cache.files},
            {"bytes", report.cache.bytes},
            {"problem", report.cache.problem}}}};
}

std::string capabilities(const DeviceReport& one) {
  std::vector<std::string> words;
  if (one.device.is_gpu() && !one.can.gpu) words.emplace_back("not a GPU");
  if (!one.can.f64) words.emplace_back("no f64");
  if (one.can.half_products) words.emplace_back("f16/bf16 products");
  if (const std::string rate = human_rate(one.can.bytes_per_second, "B"); !rate.empty())
    words.push_back(rate);
  if (const std::string rate = human_rate(one.can.operations_per_second, "FLOP"); !rate.empty())
    words.push_back(rate);
  return fmt::format("{}", fmt::join(words, ", "));
}

void print_text(const Context& context, const Report& report) {
  const Terminal& terminal = context.terminal;
  const auto say = [&](const std::string& text) {
    context.out << "  " << wrapped(printable(text, terminal), terminal.columns, 2) << '\n';
  };
  const auto title = [&](const char* text) { context.out << terminal.bold(text) << '\n'; };

  title(("Volta " + report.build.version).c_str());
  say(fmt::format("{} build by {}{}", report.build.type, report.build.compiler,
                  report.build.sanitizer.empty() ? "" : ", sanitizers " + report.build.sanitizer));
  say(fmt::format("{}", fmt::join(report.build.options, " ")));
  const std::string stamp = "stamp " + report.build.stamp;  // one word; --json prints it in full
  say(terminal.wraps ? shortened(stamp, terminal.columns - 2, terminal) : stamp);

  title("Devices");
  Table devices({{.title = "device", .importance = 5},
                 {.title = "name", .importance = 4, .shortens = true},
                 {.title = "memory", .align = Align::right, .importance = 3},
                 {.title = "free", .align = Align::right, .importance = 2},
                 {.title = "capabilities", .importance = 1, .shortens = true}});
  for (const DeviceReport& one : report.devices)
    devices.add({to_string(one.device), one.name, human_bytes(one.memory),
                 one.free ? human_bytes(*one.free) : "?", capabilities(one)});
  devices.print(context.out, terminal, 2);
  for (const auto& [family, why] : report.absent) say(fmt::format("{} is absent: {}", family, why));
  say(fmt::format("{} of the CPU backend",
                  plural(static_cast<std::uint64_t>(num_threads()), "thread")));

  title("Libraries");
  Table libraries({{.title = "library", .importance = 4, .shortens = true},
                   {.title = "version", .importance = 3, .shortens = true},
                   {.title = "for", .importance = 1},
                   {.title = "", .importance = 2, .shortens = true}});
  for (const auto& [user, library] : report.libraries)
    libraries.add(
        {library.name,
         library.version.empty() ? "absent" : shortened(library.version, kVersionColumns, terminal),
         user, library.note});
  libraries.print(context.out, terminal, 2);

  title("Kernel cache");
  if (report.cache.folder.empty()) {
    say("none: neither VOLTA_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
  } else if (!report.cache.problem.empty()) {
    say(report.cache.problem);
  } else {
    say(fmt::format("{}: {}, {}", report.cache.folder, plural(report.cache.files, "file"),
                    human_bytes(report.cache.bytes)));
  }
}

void print_environment(const Context& context) {
  Table table({{.title = "variable", .importance = 3, .shortens = true},
               {.title = "value", .importance = 2, .shortens = true},
               {.title = "meaning", .importance = 1, .shortens = true}});
  for (const EnvironmentVariable& variable : environment_variables()) {
    const char* value = std::getenv(std::string(variable.name).c_str());
    table.add(
        {std::string(variable.name), value == nullptr ? "" : value, std::string(variable.meaning)});
  }
  table.print(context.out, context.terminal);
}

int run_info(const Context& context, bool environment) {
  if (environment) {  // needs no devices, which take time to find
    if (context.json) {
      context.print({{"environment", environment_json()}});
    } else {
      print_environment(context);
    }
    return kSuccess;
  }
  const Report report = collected();
  if (context.json) {
    context.print(json_of(report));
  } else {
    print_text(context, report);
  }
  return kSuccess;
}

}  // namespace

void add_info(CLI::App& app, Context& context) {
  struct Options {
    bool environment = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, "info",
      "Show this build, the devices present and why others are absent, libraries, cache",
      "volta info\nvolta info --env\nvolta info --json | jq '.devices[].name'");
  command->add_flag("--env", options->environment,
                    "Show every environment variable that is read, with its value and meaning");
  add_json(*command, context);
  on_run(*command, context,
         [&context, options] { return run_info(context, options->environment); });
}

}  // namespace volta::cli
