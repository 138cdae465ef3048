// The folder of a run: configuration, measurements, checkpoints and the report.
//   config.json      recipe, settings, device, version, command line
//   metrics.jsonl    one line per measurement
//   events.out.*     the same measurements for TensorBoard
//   last.safetensors the latest checkpoint, which decides what else is valid
//   best.safetensors the weights of the best evaluation that the checkpoint knows of
//   report.html
// Files are replaced as a whole and synced. A kill at any moment leaves one of two states: either
// the files of the previous checkpoint, with newer best weights under the name
// best.next.safetensors, or the new checkpoint, whose best weights still have that name. best()
// finds them, and the next run in the folder renames them. Measurements after the checkpoint are
// repeated. A run holds the lock on run.lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"
#include "train/settings.h"
#include "volta/io/durable_file.h"

namespace volta::cli {

class RunFolder {
 public:
  // A folder that begin() will create; nothing is changed yet. Throws UsageError if something
  // exists there, unless `force` is set and it belongs to a run, or if a run is active.
  static RunFolder create(const std::filesystem::path& path, bool force);
  // The folder of an existing run; a plain name may be one in runs/. Throws UsageError if there is
  // no run.
  static RunFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string last() const;
  // The path of the best weights, whether they exist or not.
  std::string best() const;
  // The path for new best weights, written before the checkpoint that refers to them.
  std::string next_best() const;
  // Called after that checkpoint: renames them to the best weights. Throws IoError.
  void publish_best() const;
  // Cleans up after a killed run: renames its best weights, or removes them if no checkpoint refers
  // to them, and removes temporary files. Throws IoError.
  void settle() const;

  // Creates and locks the folder, removes the files of an earlier run in it (and no others), and
  // writes the configuration. Throws IoError, or UsageError if another run was faster; a new folder
  // is then removed again.
  void begin(const Json& config);
  // Makes this the only run in the folder until the object and its copies are gone. Throws
  // UsageError if another run is active or run.lock belongs to somebody else, and IoError if the
  // folder is not writable.
  void lock();
  void write_config(const Json& config) const;  // throws IoError
  Json read_config() const;                     // an object; throws IoError naming the file

  // Calls `each` with every measurement, in order of the file, and its line. Returns the number of
  // invalid lines. One measurement is held at a time, because as JSON they would take twelve times
  // the memory of the file. Throws IoError.
  using EachMetric = std::function<void(const Json& metric, std::string_view line)>;
  std::int64_t read_metrics(const EachMetric& each) const;
  // Replaces the measurements by complete lines from read_metrics. Throws IoError.
  void write_metrics(const std::string& lines) const;
  void append_metric(const Json& metric) const;  // throws IoError
  // Makes appended measurements survive a crash; called before the checkpoint that follows them.
  // Throws IoError.
  void sync_metrics() const;

  // Writes the whole text; if that fails, the old file remains. Throws IoError.
  void write(const std::string& name, const std::string& text) const;
  // The last step in the report of a finished run, or nothing. Throws IoError if the report is not
  // a regular file.
  std::optional<std::int64_t> reported_step() const;

 private:
  RunFolder(std::filesystem::path path, bool force) : path_(std::move(path)), force_(force) {}
  void refuse_what_is_there() const;
  void refuse_foreign() const;
  void refuse_foreign_lock() const;
  bool has_run() const;
  std::vector<std::filesystem::path> entries() const;
  void remove_run() const;

  std::filesystem::path path_;
  bool force_;
  std::optional<FileLock> lock_ = std::nullopt;
};

}  // namespace volta::cli
