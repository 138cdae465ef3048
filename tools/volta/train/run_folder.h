// The folder of a run: what was asked for, what was measured, checkpoints, the report.
//   config.json      recipe, settings, device, version, command line
//   metrics.jsonl    a line for every measurement
//   events.out.*     the same for TensorBoard
//   last.safetensors the latest checkpoint; what it says holds, whatever else lies there
//   best.safetensors the weights of the best evaluation that the checkpoint knows of
//   report.html
// Files are replaced as a whole and synced. A kill leaves at any moment one of these: the files of
// the checkpoint before, besides which the new best weights lie under a name of their own
// (best.next.safetensors); or the new checkpoint, whose best weights lie there still. best() finds
// them, and the next run in the folder puts them in their place. Measurements after the checkpoint
// are taken again. While a run lasts it holds the lock on run.lock.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "train/settings.h"
#include "volta/io/durable_file.h"

namespace volta::cli {

class RunFolder {
 public:
  // One that begin() is to make; changes nothing. Throws UsageError where something is there
  // already, unless `force`; where it is not a run's, also then; and where a run is under way.
  static RunFolder create(const std::filesystem::path& path, bool force);
  // One that a run made; a name without folders may be one in runs/. Throws UsageError where it is
  // none.
  static RunFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string last() const;
  // Where the best weights are or, where there are none, belong.
  std::string best() const;
  // Where new ones are written before the checkpoint that knows of them.
  std::string next_best() const;
  // After that checkpoint: they become the best. Throws IoError.
  void publish_best() const;
  // What a killed run left: its best weights get their place, or go where no checkpoint knows of
  // them, and so do temporary files. Throws IoError.
  void settle() const;

  // Makes the folder, locks it, removes the files of a run in it, and no others, and writes the
  // configuration. Throws IoError, and UsageError where a run came before this one; a folder that
  // was made is then gone again.
  void begin(const Json& config);
  // Until the object and its copies are gone, this is the only run in the folder. Throws UsageError
  // where another is, IoError where permissions forbid writing.
  void lock();
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
  // Makes those appended survive a crash, before the checkpoint that comes after them. Throws
  // IoError.
  void sync_metrics() const;

  // The whole text or, where that fails, the file as it was. Throws IoError.
  void write(const std::string& name, const std::string& text) const;
  // The step of a finished run that the report tells of; nothing where there is none.
  std::optional<std::int64_t> reported_step() const;

 private:
  RunFolder(std::filesystem::path path, bool force) : path_(std::move(path)), force_(force) {}
  void refuse_what_is_there() const;
  void refuse_foreign() const;
  bool has_run() const;
  std::vector<std::filesystem::path> entries() const;
  void remove_run() const;

  std::filesystem::path path_;
  bool force_;
  std::optional<FileLock> lock_ = std::nullopt;
};

}  // namespace volta::cli
