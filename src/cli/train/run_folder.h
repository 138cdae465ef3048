// The folder of a run: what was asked for, what was measured, checkpoints, the report.
//   config.json      recipe, settings, device, version, command line
//   metrics.jsonl    a line for every measurement
//   events.out.*     the same for TensorBoard
//   last.safetensors, best.safetensors
//   report.html
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "train/settings.h"

namespace volta::cli {

class RunFolder {
 public:
  // Makes it. Throws UsageError where something is there already, unless `force`: then the files of
  // a run in it are removed, and no others.
  static RunFolder create(const std::filesystem::path& path, bool force);
  // One that a run made; a name without folders may be one in runs/. Throws UsageError where it is
  // none.
  static RunFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string last() const { return file("last.safetensors"); }
  std::string best() const { return file("best.safetensors"); }

  void write_config(const Json& config) const;
  Json read_config() const;  // throws IoError naming the file

  // Measurements of steps, in order; those after `step`, which a run that went on from a checkpoint
  // takes again, are dropped.
  std::vector<Json> read_metrics() const;
  void drop_metrics_after(std::int64_t step) const;
  void append_metric(const Json& metric) const;  // throws IoError

  // Removes the folders that create() made, as far as there is nothing in them.
  void remove_if_unused() const;

  // The whole text or, where that fails, the file as it was. Throws IoError.
  void write(const std::string& name, const std::string& text) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // the innermost first
};

}  // namespace volta::cli
