#include "train/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

#include "train/shell_word.h"
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

void fail_if(const std::error_code& error, const fs::path& path, const char* what) {
  if (error) throw IoError(fmt::format("{}: {}: {}", path.string(), what, error.message()));
}

// JSON is UTF-8; names of files may be any bytes.
std::string text_of(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

RunFolder RunFolder::create(const fs::path& path, bool force) {
  std::error_code error;
  const bool there = fs::exists(path, error);
  if (error == std::errc::not_a_directory) error.clear();  // begin() says so
  fail_if(error, path, "cannot look into it");
  if (!there) return RunFolder(path);
  if (!fs::is_directory(path, error))
    throw UsageError(fmt::format("{} is there already and no folder", path.string()));
  const bool empty = fs::is_empty(path, error);
  fail_if(error, path, "cannot look into it");
  if (!empty && !force) {
    const bool can_go_on =
        fs::exists(path / "config.json", error) && fs::exists(path / "last.safetensors", error);
    throw UsageError(fmt::format(
        "{} is there already: {}--force removes the run in it, --out names another folder",
        path.string(),
        can_go_on ? fmt::format("--resume {} goes on with it, ", shell_word(path.string())) : ""));
  }
  return RunFolder(path);
}

void RunFolder::begin(const Json& config) const {
  std::error_code error;
  std::vector<fs::path> made;  // the innermost first
  for (fs::path part = path_; !part.empty() && !fs::exists(part, error); part = part.parent_path())
    made.push_back(part);
  try {
    fs::create_directories(path_, error);
    fail_if(error, path_, "cannot make the folder");
    remove_run();
    write_config(config);
  } catch (...) {
    for (const fs::path& part : made)
      if (!fs::remove(part, error)) break;  // there is something in it
    throw;
  }
}

void RunFolder::remove_run() const {
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator entry(path_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    if (is_ours(entry->path())) files.push_back(entry->path());
  fail_if(error, path_, "cannot look into it");
  for (const fs::path& file : files) {
    fs::remove(file, error);
    fail_if(error, file, "cannot remove it");
  }
}

void RunFolder::check_writable() const {
  if (::access(path_.c_str(), W_OK | X_OK) != 0) fail(path_.string(), "write into it");
}

RunFolder RunFolder::open(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path / "config.json", error)) return RunFolder(path);
  if (error == std::errc::permission_denied) fail_if(error, path, "cannot look into it");
  const fs::path usual = fs::path("runs") / path;
  if (!path.has_parent_path() && fs::exists(usual / "config.json", error)) return RunFolder(usual);
  throw UsageError(
      fmt::format("{} is no folder of a run: there is no config.json in it", path.string()));
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
  write("config.json", text_of(config, 2) + "\n");
}

Json RunFolder::read_config() const {
  const std::string path = file("config.json");
  std::error_code error;
  if (fs::is_directory(path, error)) throw IoError(path + ": is a folder, not a file");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(path, "open");
  Json config;
  try {
    config = Json::parse(in);
  } catch (const Json::parse_error& failure) {
    throw IoError(fmt::format("{}: is no valid JSON from byte {} on", path, failure.byte));
  }
  if (!config.is_object()) throw IoError(path + ": is no configuration of a run");
  return config;
}

RunFolder::Metrics RunFolder::read_metrics() const {
  Metrics metrics;
  std::ifstream in(file("metrics.jsonl"), std::ios::binary);
  for (std::string line; std::getline(in, line);) {
    // One that a full disk or a crash cut off, for instance.
    Json metric = Json::parse(line, nullptr, false);
    if (metric.is_object() && metric.contains("step") && metric["step"].is_number_integer()) {
      metrics.lines.push_back(std::move(metric));
    } else {
      ++metrics.unreadable;
    }
  }
  return metrics;
}

void RunFolder::write_metrics(const std::vector<Json>& lines) const {
  std::string text;
  for (const Json& line : lines) text += text_of(line, -1) + "\n";
  write("metrics.jsonl", text);
}

void RunFolder::append_metric(const Json& metric) const {
  errno = 0;
  std::ofstream out(file("metrics.jsonl"), std::ios::binary | std::ios::app);
  out << text_of(metric, -1) << '\n';
  out.close();
  if (!out) fail(file("metrics.jsonl"), "write");
}

}  // namespace volta::cli
