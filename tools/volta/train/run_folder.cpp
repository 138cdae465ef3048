#include "train/run_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>

#include "json_file.h"
#include "train/run_files.h"
#include "train/shell_word.h"
#include "volta/error.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& file, const char* doing) {
  throw IoError(
      fmt::format("{}: cannot {}: {}", file, doing, std::strerror(errno == 0 ? EIO : errno)));
}

void fail_if(const std::error_code& error, const fs::path& path, const char* what) {
  if (error) throw IoError(fmt::format("{}: {}: {}", path.string(), what, error.message()));
}

// Makes the folder and those that it is in, as far as they are missing, and adds them to `made`.
void make_folders(const fs::path& path, std::vector<fs::path>& made) {
  std::error_code error;
  fs::path part;
  for (const fs::path& name : path) {
    part /= name;
    const fs::file_status found = fs::status(part, error);
    if (fs::is_directory(found)) continue;
    error.clear();
    if (fs::exists(found)) error = std::make_error_code(std::errc::not_a_directory);
    const bool is_new = !error && fs::create_directory(part, error);
    fail_if(error, path, "cannot make the folder");
    if (is_new) made.push_back(part);
  }
}

// JSON is UTF-8, but names of files may be any bytes.
std::string text_of(const Json& document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

RunFolder RunFolder::create(const fs::path& path, bool force) {
  RunFolder folder(path, force);
  std::error_code error;
  const bool there = fs::exists(path, error);
  if (error == std::errc::not_a_directory) error.clear();  // begin() reports this
  fail_if(error, path, "cannot look into it");
  if (there) folder.refuse_what_is_there();
  return folder;
}

std::vector<fs::path> RunFolder::entries() const {
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator entry(path_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    files.push_back(entry->path());
  fail_if(error, path_, "cannot look into it");
  return files;
}

void RunFolder::refuse_what_is_there() const {
  std::error_code error;
  if (!fs::is_directory(path_, error))
    throw UsageError(fmt::format("{} is there already and no folder", path_.string()));
  const std::vector<fs::path> found = entries();
  // A run that was killed before it wrote a configuration leaves only these files.
  const bool empty = std::ranges::all_of(found, [](const fs::path& file) {
    return file.filename() == kLockFile ? is_run_lock(file) : is_leftover(file);
  });
  if (empty) return;
  const std::string name = path_.string();
  if (!lock_ && FileLock::is_held(file(kLockFile)))
    throw UsageError(fmt::format("{}: a run is under way in it: --out names another folder", name));
  refuse_foreign();
  if (force_) return;
  throw UsageError(fmt::format(
      "{} is there already: {}--force removes the run in it, --out names another folder", name,
      has_run() ? fmt::format("--resume {} goes on with it, ", shell_word(name)) : ""));
}

bool RunFolder::has_run() const { return is_run_config(path_ / "config.json"); }

void RunFolder::refuse_foreign() const {
  refuse_foreign_lock();
  // In the folder of a run, files with these names are its own, but a run makes no folders or
  // pipes.
  const bool own = has_run();
  for (const fs::path& found : entries()) {
    std::error_code error;
    const fs::file_status status = fs::symlink_status(found, error);
    const bool file = fs::is_regular_file(status) || fs::is_symlink(status);
    if (!is_run_file_name(found.filename().string()) || (own && file) || is_run_file(found))
      continue;
    throw UsageError(
        fmt::format("{} was not written by a run, which would replace it: --out names another "
                    "folder",
                    found.string()));
  }
}

void RunFolder::refuse_foreign_lock() const {
  std::error_code error;
  const fs::path lock = path_ / kLockFile;
  if (!fs::exists(fs::symlink_status(lock, error)) || is_run_lock(lock)) return;
  throw UsageError(fmt::format(
      "{} was not written by a run: those of runs are empty; choose another folder, or rename it",
      lock.string()));
}

void RunFolder::begin(const Json& config) {
  std::vector<fs::path> made;  // innermost last
  try {
    make_folders(path_, made);
    lock();
    refuse_what_is_there();  // another run may have used the folder since the first check
    remove_run();
    write_config(config);
  } catch (...) {
    lock_.reset();
    for (; !made.empty(); made.pop_back())
      if (::rmdir(made.back().c_str()) != 0) break;  // the folder is not empty
    throw;
  }
}

void RunFolder::lock() {
  if (::access(path_.c_str(), W_OK | X_OK) != 0) fail(path_.string(), "write into it");
  refuse_foreign_lock();
  lock_ = FileLock::try_lock(file(kLockFile));
  if (lock_) return;
  throw UsageError(
      fmt::format("{}: another process trains into this folder; wait until it ends, or stop it",
                  path_.string()));
}

// The configuration is removed first, because without it there is no run, even if the rest is
// killed.
void RunFolder::remove_run() const {
  remove_leftovers(path_);
  const bool own = has_run();
  if (own) remove_durably(file("config.json"));
  std::error_code error;
  for (const fs::path& found : entries()) {
    const std::string name = found.filename().string();
    if (!is_run_file_name(name) || !(own || is_run_file(found))) continue;
    fs::remove(found, error);
    fail_if(error, found, "cannot remove it");
  }
}

RunFolder RunFolder::open(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path / "config.json", error)) return {path, false};
  if (error == std::errc::permission_denied) fail_if(error, path, "cannot look into it");
  const fs::path usual = fs::path("runs") / path;
  if (!path.has_parent_path() && fs::exists(usual / "config.json", error)) return {usual, false};
  throw UsageError(
      fmt::format("{} is no folder of a run: there is no config.json in it", path.string()));
}

std::string RunFolder::last() const { return file(kLastFile); }
std::string RunFolder::best() const { return file(best_file_in(path_)); }
std::string RunFolder::next_best() const { return file(kNextBestFile); }

void RunFolder::publish_best() const { rename_durably(next_best(), file(kBestFile)); }

void RunFolder::settle() const {
  remove_leftovers(path_);
  std::error_code error;
  if (!fs::exists(next_best(), error)) return;
  if (fs::exists(last(), error) && best() == next_best()) {
    publish_best();
  } else {
    remove_durably(next_best());
  }
}

void RunFolder::write(const std::string& name, const std::string& text) const {
  write_durably(file(name), text);
}

void RunFolder::write_config(const Json& config) const {
  write("config.json", text_of(config, 2) + "\n");
}

Json RunFolder::read_config() const {
  const std::string path = file("config.json");
  std::error_code error;
  if (fs::is_directory(path, error)) throw IoError(path + ": is a folder, not a file");
  Json config = read_json_file(path);
  if (!config.is_object()) throw IoError(path + ": is no configuration of a run");
  return config;
}

namespace {

// Parses a line that the trainer wrote: an object of numbers and texts with a step.
std::optional<Json> metric_of(std::string_view line) {
  // A quick test rejects most other lines in a hundredth of the parser's time; a file may
  // have a line for every byte.
  if (line.size() > kMaxMetricBytes || line.find("\"step\"") == std::string_view::npos)
    return std::nullopt;
  std::optional<Json> metric = parse_json_text(line);
  if (!metric || !metric->is_object() || !metric->contains("step") ||
      !(*metric)["step"].is_number_integer() ||
      std::ranges::any_of(*metric, [](const Json& value) { return value.is_structured(); }))
    return std::nullopt;
  return metric;
}

}  // namespace

std::int64_t RunFolder::read_metrics(const EachMetric& each) const {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;
  std::int64_t unreadable = 0;
  std::error_code error;
  const std::string path = file("metrics.jsonl");
  if (!fs::exists(path, error)) return unreadable;
  const std::string text = text_of_file(path, kMaxBytes);
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    // Lines that a full disk or a crash cut off are skipped.
    if (const std::optional<Json> metric = metric_of(line)) {
      each(*metric, line);
    } else {
      ++unreadable;
    }
  }
  return unreadable;
}

void RunFolder::write_metrics(const std::string& lines) const { write("metrics.jsonl", lines); }

void RunFolder::append_metric(const Json& metric) const {
  append_to_file(file("metrics.jsonl"), text_of(metric, -1) + "\n");
}

void RunFolder::sync_metrics() const {
  std::error_code error;
  if (fs::exists(file("metrics.jsonl"), error)) sync_file(file("metrics.jsonl"));
}

std::optional<std::int64_t> RunFolder::reported_step() const {
  constexpr std::string_view kFinished = "<meta name=\"volta-run\" content=\"finished ";
  std::error_code error;
  if (!fs::exists(file("report.html"), error)) return std::nullopt;
  const std::string start = read_beginning_of_file(file("report.html"), kReportStart);
  const std::size_t at = start.find(kFinished);
  std::int64_t step = 0;
  if (at == std::string::npos ||
      std::from_chars(start.data() + at + kFinished.size(), start.data() + start.size(), step).ec !=
          std::errc())
    return std::nullopt;
  return step;
}

}  // namespace volta::cli
