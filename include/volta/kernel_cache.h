// The folder in which compiled kernels and timed choices are kept from one process to the next.
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

// $VOLTA_CACHE_DIR, $XDG_CACHE_HOME/volta or ~/.cache/volta; empty where none of them is set: then
// nothing is kept. The folder need not exist.
VOLTA_API std::string kernel_cache_folder();

// The files there that are Volta's, told by name and content: entries, and what processes that were
// killed while writing have left behind. Throws IoError for a folder that cannot be read.
VOLTA_API std::vector<KernelCacheFile> kernel_cache_files();

// Removes them and returns those that are gone. Processes that run now keep what they have loaded
// and write new entries. Throws IoError naming what could not be removed, after trying all.
VOLTA_API std::vector<KernelCacheFile> clear_kernel_cache();

}  // namespace volta
