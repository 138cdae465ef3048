// A folder of checksummed entries: what KernelCache keeps on disk. Safe to share between threads
// and processes: entries are written under a temporary name and renamed. Whoever can write an entry
// can run code on the device, so the folder must be this user's alone to write to.
#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>

#include "volta/export.h"

namespace volta::kernel {

// Where the process keeps its entries, by the environment; empty: nowhere.
std::filesystem::path default_cache_folder();

// What every entry begins with, whatever the format's version.
inline constexpr std::string_view kEntryMagic = "VOLTAK";

// Removes what processes that were killed while they wrote entries left in the folder.
void remove_abandoned_entries(const std::filesystem::path& folder);

class VOLTA_BACKEND_API CacheFolder {
 public:
  // An empty path: caching is off.
  explicit CacheFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // False where there is no such entry; a corrupt one is deleted.
  bool load(const std::string& key, std::string& binary);
  // Where the folder cannot be written: one warning, and nothing more is tried.
  void store(const std::string& key, const std::string& binary);

 private:
  std::filesystem::path entry(const std::string& key) const { return folder_ / (key + ".bin"); }
  // False, with a warning, where others may write to the folder. True where there is none yet.
  bool is_trusted();
  void turn_off(const std::string& why);

  const std::filesystem::path folder_;
  std::atomic<bool> writable_{true}, refused_{false};
  std::once_flag cleaned_;
};

}  // namespace volta::kernel
