#include "train/run_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include "command.h"
#include "json_file.h"
#include "volta/error.h"
#include "volta/io/durable_file.h"
#include "volta/safetensors.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kFiles = {"config.json", "metrics.jsonl", "report.html",
                                                    kLastFile,     kBestFile,       kNextBestFile};

bool take(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

// Removes the digits at the front of `text` and returns their number.
std::size_t take_digits(std::string_view& text) {
  const std::size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(count);
  return count;
}

// SummaryWriter's names are "events.out.tfevents.<seconds>.volta.<number>". Other programs that
// write into the same folders use the name of the machine and further parts.
bool is_events_name(std::string_view name) {
  constexpr std::size_t kLeastSeconds = 10;
  return take(name, "events.out.tfevents.") && take_digits(name) >= kLeastSeconds &&
         take(name, ".volta.") && take_digits(name) > 0 && name.empty();
}

bool is_regular(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error);
}

SafetensorsMetadata metadata_of(const std::string& file) {
  try {
    return SafetensorsFile(file).metadata();
  } catch (const Error&) {
    return {};
  }
}

std::optional<std::int64_t> number(const SafetensorsMetadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  std::int64_t value = 0;
  const char* end = found->second.data() + found->second.size();
  const auto [stop, error] = std::from_chars(found->second.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Returns the first bytes of a regular file, or nothing if it cannot be read.
std::optional<std::string> beginning_of(const fs::path& file, std::size_t bytes) {
  try {
    return read_beginning_of_file(file.string(), bytes);
  } catch (const IoError&) {
    return std::nullopt;
  }
}

bool is_metrics(const fs::path& file) {
  const std::optional<std::string> start = beginning_of(file, kMaxMetricBytes + 1);
  if (!start || start->empty()) return start.has_value();
  const std::string_view line = std::string_view(*start).substr(0, start->find('\n'));
  if (line.size() > kMaxMetricBytes) return false;
  const std::optional<Json> metric = parse_json_text(line);
  return metric && metric->is_object() && metric->contains("step");
}

bool is_report(const fs::path& file) {
  const std::optional<std::string> start = beginning_of(file, kReportStart);
  return start && start->find("<meta name=\"volta-run\"") != std::string::npos;
}

}  // namespace

bool is_run_lock(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(fs::symlink_status(file, error)) && fs::file_size(file, error) == 0 &&
         !error;
}

bool is_run_file_name(const std::string& name) {
  return std::ranges::find(kFiles, name) != kFiles.end() || is_events_name(name);
}

bool is_run_config(const fs::path& file) {
  try {
    const Json config = read_json_file(file.string());
    return config.is_object() && config.contains("recipe") && config["recipe"].is_string() &&
           config.contains("settings") && config["settings"].is_object();
  } catch (const IoError&) {
    return false;
  }
}

bool is_run_file(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!is_regular(file)) return false;
  if (is_events_name(name)) return true;
  if (name == "config.json") return is_run_config(file);
  if (name == "metrics.jsonl") return is_metrics(file);
  if (name == "report.html") return is_report(file);
  const SafetensorsMetadata metadata = metadata_of(file.string());
  return metadata.contains("recipe") || metadata.contains("text.recipe");
}

bool is_leftover(const fs::path& file) {
  return std::ranges::any_of(kFiles, [&](std::string_view name) {
    return is_abandoned_temporary(file.string(), std::string(name));
  });
}

void remove_leftovers(const fs::path& folder) {
  for (const std::string_view name : kFiles) remove_abandoned_temporaries((folder / name).string());
}

std::string best_file_in(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / kNextBestFile, error)) return kBestFile;
  const auto step = number(metadata_of((folder / kNextBestFile).string()), "step");
  const std::string last = (folder / kLastFile).string();
  const bool known =
      !fs::exists(last, error) || number(metadata_of(last), "number.best_step") == step;
  return step && known ? kNextBestFile : kBestFile;
}

}  // namespace volta::cli
