#include "train/run_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "command.h"
#include "volta/error.h"
#include "volta/io/durable_file.h"
#include "volta/safetensors.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kFiles = {"config.json", "metrics.jsonl", "report.html",
                                                    kLastFile,     kBestFile,       kNextBestFile};

// As SummaryWriter names them; other programs write into the same folders.
bool is_events_name(std::string_view name) {
  return name.starts_with("events.out.tfevents.") && name.find(".volta.") != std::string_view::npos;
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

bool is_metrics(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string line;
  if (!std::getline(in, line)) return in.eof();  // an empty one
  const Json metric = Json::parse(line, nullptr, false);
  return metric.is_object() && metric.contains("step");
}

bool is_report(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string start(2048, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  return start.find("<meta name=\"volta-run\"") != std::string::npos;
}

}  // namespace

bool is_run_file_name(const std::string& name) {
  return std::ranges::find(kFiles, name) != kFiles.end() || is_events_name(name);
}

bool is_run_config(const fs::path& file) {
  if (!is_regular(file)) return false;
  std::ifstream in(file, std::ios::binary);
  const Json config = Json::parse(in, nullptr, false);
  return config.is_object() && config.contains("recipe") && config["recipe"].is_string() &&
         config.contains("settings") && config["settings"].is_object();
}

bool is_run_file(const fs::path& file) {
  const std::string name = file.filename().string();
  if (is_events_name(name)) return true;
  if (!is_regular(file)) return false;
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
