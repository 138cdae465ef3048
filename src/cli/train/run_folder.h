// The folder of a run: what was asked for, what was measured, checkpoints, the report.
//   config.json      recipe, settings, device, version, command line
//   metrics.jsonl    a line for every measurement
//   events.out.*     the same for TensorBoard
//   last.safetensors, best.safetensors
//   report.html
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "train/settings.h"

namespace volta::cli {

class RunFolder {
 public:
  // One that begin() is to make; changes nothing. Throws UsageError where something is there
  // already, unless `force`.
  static RunFolder create(const std::filesystem::path& path, bool force);
  // One that a run made; a name without folders may be one in runs/. Throws UsageError where it is
  // none.
  static RunFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string last() const { return file("last.safetensors"); }
  std::string best() const { return file("best.safetensors"); }

  // Makes the folder, removes the files of a run in it, and no others, and writes the
  // configuration. Throws IoError; a folder that was made is then gone again.
  void begin(const Json& config) const;
  void check_writable() const;                  // throws IoError where permissions forbid it
  void write_config(const Json& config) const;  // throws IoError
  Json read_config() const;                     // an object; throws IoError naming the file

  // Measurements of steps, in order.
  struct Metrics {
    std::vector<Json> lines = {};
    std::int64_t unreadable = 0;  // lines that were left out
  };
  Metrics read_metrics() const;
  // Replaces them. Throws IoError.
  void write_metrics(const std::vector<Json>& lines) const;
  void append_metric(const Json& metric) const;  // throws IoError

  // The whole text or, where that fails, the file as it was. Throws IoError.
  void write(const std::string& name, const std::string& text) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  void remove_run() const;
  std::filesystem::path path_;
};

}  // namespace volta::cli
