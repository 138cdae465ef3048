// The folder that keeps compiled kernels and timed choices between processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "volta/export.h"

namespace volta {

// A file of the cache.
struct KernelCacheFile {
  std::string path;
  std::uint64_t bytes = 0;
};

// Returns $VOLTA_CACHE_DIR, $XDG_CACHE_HOME/volta or ~/.cache/volta, or an empty string if none of
// them is set; then nothing is cached. The folder need not exist.
VOLTA_API std::string kernel_cache_folder();

// Lists Volta's files in the folder, recognised by name and content: entries, and temporary files
// of processes that were killed while writing. Throws IoError if the folder cannot be read.
VOLTA_API std::vector<KernelCacheFile> kernel_cache_files();

// Removes these files and returns the removed ones. Running processes keep what they have loaded
// and write new entries. Throws IoError naming the files that could not be removed, after trying
// all.
VOLTA_API std::vector<KernelCacheFile> clear_kernel_cache();

}  // namespace volta
