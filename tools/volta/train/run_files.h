// Which files are a run's own: by their names, and where names are not enough, by their content.
#pragma once

#include <filesystem>
#include <string>

namespace volta::cli {

inline constexpr const char* kLockFile = "run.lock";

// Whether a run writes files of this name: config.json, best.safetensors, events of TensorBoard.
bool is_run_file_name(const std::string& name);
// Whether a file of such a name is one that a run wrote.
bool is_run_file(const std::filesystem::path& file);
// A config.json that a run wrote: Hugging Face's models have one, too.
bool is_run_config(const std::filesystem::path& file);
// A temporary file that a killed process left for one of a run's.
bool is_leftover(const std::filesystem::path& file);
// Removes all of those in the folder.
void remove_leftovers(const std::filesystem::path& folder);

inline constexpr const char *kLastFile = "last.safetensors", *kBestFile = "best.safetensors",
                            *kNextBestFile = "best.next.safetensors";

// The name of the best weights in the folder: kNextBestFile where the checkpoint knows of those, or
// where there is no checkpoint that could; otherwise kBestFile, whether it is there or not.
std::string best_file_in(const std::filesystem::path& folder);

}  // namespace volta::cli
