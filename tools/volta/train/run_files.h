// Recognises a run's own files by their names and, if names are not enough, by their content.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace volta::cli {

inline constexpr const char* kLockFile = "run.lock";
inline constexpr std::size_t kMaxMetricBytes = 1 << 16;  // limit for a line of metrics.jsonl
// Start of a report that contains the run's status.
inline constexpr std::size_t kReportStart = 2048;

// Returns whether a file with the lock's name is a lock: empty and regular.
bool is_run_lock(const std::filesystem::path& file);
// Returns whether a run writes files of this name: config.json, best.safetensors, TensorBoard
// events.
bool is_run_file_name(const std::string& name);
// Returns whether a file with such a name was written by a run.
bool is_run_file(const std::filesystem::path& file);
// Returns whether a run wrote this config.json; Hugging Face's models have one, too.
bool is_run_config(const std::filesystem::path& file);
// Returns whether this is a temporary file that a killed process left for a run's file.
bool is_leftover(const std::filesystem::path& file);
// Removes all such files in the folder.
void remove_leftovers(const std::filesystem::path& folder);

inline constexpr const char *kLastFile = "last.safetensors", *kBestFile = "best.safetensors",
                            *kNextBestFile = "best.next.safetensors";

// Returns the name of the best weights in the folder: kNextBestFile if the checkpoint refers to
// them or there is no checkpoint; otherwise kBestFile, whether it exists or not.
std::string best_file_in(const std::filesystem::path& folder);

}  // namespace volta::cli
