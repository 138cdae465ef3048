// The process's cache of compiled kernels, which also keeps the results of timing.
#pragma once

#include <string>

#include "volta/export.h"

namespace volta::kernel {

// Compiled kernels on disk as <folder>/<key>.bin, written under a temporary name and renamed. The
// folder is $VOLTA_CACHE_DIR, else $XDG_CACHE_HOME/volta, else ~/.cache/volta; if it is not
// writable, caching is off, with one warning. Entries carry a checksum: a corrupt entry is deleted
// and treated as missing.
class VOLTA_BACKEND_API KernelCache {
 public:
  // The process's cache.
  static KernelCache& instance();

  // The key of a kernel: a hash of source, compiler options, architecture and compiler version.
  static std::string key(const std::string& source, const std::string& options,
                         const std::string& architecture, const std::string& compiler);
  bool load(const std::string& key, std::string& binary);
  void store(const std::string& key, const std::string& binary);
};

}  // namespace volta::kernel
