#include "train/run_folder.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string_view>
#include <system_error>

#include "volta/error.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kFiles = {
    "config.json", "metrics.jsonl", "last.safetensors", "best.safetensors", "report.html"};

bool is_ours(const fs::path& file) {
  const std::string name = file.filename().string();
  for (const std::string_view known : kFiles)
    if (name == known) return true;
  return name.starts_with("events.out.tfevents.");
}

[[noreturn]] void fail(const std::string& file, const char* doing) {
  throw IoError(
      fmt::format("{}: cannot {}: {}", file, doing, std::strerror(errno == 0 ? EIO : errno)));
}

}  // namespace

RunFolder RunFolder::create(const fs::path& path, bool force) {
  std::error_code error;
  if (fs::exists(path, error)) {
    if (!fs::is_directory(path, error))
      throw UsageError(fmt::format("{} is there already and no folder", path.string()));
    const bool empty = fs::is_empty(path, error);
    if (!empty && !force) {
      throw UsageError(fmt::format(
          "{} is there already: --resume {} goes on with it, --force removes the run in it, --out "
          "names another folder",
          path.string(), path.string()));
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
      if (is_ours(entry.path())) fs::remove(entry.path(), error);
  }
  RunFolder folder(path);
  for (fs::path part = path; !part.empty() && !fs::exists(part, error); part = part.parent_path())
    folder.made_.push_back(part);
  fs::create_directories(path, error);
  if (error)
    throw IoError(fmt::format("{}: cannot make the folder: {}", path.string(), error.message()));
  return folder;
}

void RunFolder::remove_if_unused() const {
  std::error_code error;
  for (const fs::path& part : made_)
    if (!fs::remove(part, error)) return;  // there is something in it
}

RunFolder RunFolder::open(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path / "config.json", error)) {
    const fs::path usual = fs::path("runs") / path;
    if (!path.has_parent_path() && fs::exists(usual / "config.json", error))
      return RunFolder(usual);
    throw UsageError(
        fmt::format("{} is no folder of a run: there is no config.json in it", path.string()));
  }
  return RunFolder(path);
}

void RunFolder::write(const std::string& name, const std::string& text) const {
  const std::string target = file(name), temporary = target + ".new";
  errno = 0;
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  std::error_code error;
  if (!out) {
    const int reason = errno;
    fs::remove(temporary, error);
    errno = reason;
    fail(target, "write");
  }
  fs::rename(temporary, target, error);
  if (error) throw IoError(fmt::format("{}: cannot write: {}", target, error.message()));
}

void RunFolder::write_config(const Json& config) const {
  write("config.json", config.dump(2) + "\n");
}

Json RunFolder::read_config() const {
  errno = 0;
  std::ifstream in(file("config.json"), std::ios::binary);
  if (!in) fail(file("config.json"), "open");
  try {
    return Json::parse(in);
  } catch (const Json::exception& error) {
    throw IoError(fmt::format("{}: {}", file("config.json"), error.what()));
  }
}

std::vector<Json> RunFolder::read_metrics() const {
  std::vector<Json> metrics;
  std::ifstream in(file("metrics.jsonl"), std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    // A line that a full disk or a crash cut off says nothing.
    Json metric = Json::parse(line, nullptr, false);
    if (metric.is_object() && metric.contains("step")) metrics.push_back(std::move(metric));
  }
  return metrics;
}

void RunFolder::drop_metrics_after(std::int64_t step) const {
  std::string kept;
  for (const Json& metric : read_metrics())
    if (metric["step"].get<std::int64_t>() <= step) kept += metric.dump() + "\n";
  write("metrics.jsonl", kept);
}

void RunFolder::append_metric(const Json& metric) const {
  errno = 0;
  std::ofstream out(file("metrics.jsonl"), std::ios::binary | std::ios::app);
  out << metric.dump() << '\n';
  out.close();
  if (!out) fail(file("metrics.jsonl"), "write");
}

}  // namespace volta::cli
