// A folder of checksummed entries: KernelCache's storage on disk. Threads and processes can share
// it, because entries are written under a temporary name and renamed. Whoever can write an entry
// can run code on the device, so only this user may have write access to the folder.
#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "volta/export.h"

namespace volta::kernel {

// The process's cache folder, from the environment; empty if there is none.
std::filesystem::path default_cache_folder();

// The first bytes of every entry, in all versions of the format.
inline constexpr std::string_view kEntryMagic = "VOLTAK";

// Removes temporary files of processes that were killed while they wrote entries.
void remove_abandoned_entries(const std::filesystem::path& folder);

class VOLTA_BACKEND_API CacheFolder {
 public:
  // An empty path turns caching off.
  explicit CacheFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Returns false if there is no such entry; a corrupt entry is deleted.
  bool load(const std::string& key, std::string& binary);
  // If the folder cannot be written, warns once and stores nothing from then on.
  void store(const std::string& key, const std::string& binary);

 private:
  std::filesystem::path entry(const std::string& key) const { return folder_ / (key + ".bin"); }
  // Returns false, with a warning, if others may write to the folder; true also if it does not
  // exist yet.
  bool is_trusted();
  void turn_off(const std::string& why);

  const std::filesystem::path folder_;
  std::atomic<bool> writable_{true}, refused_{false};
  std::once_flag cleaned_;
};

}  // namespace volta::kernel
