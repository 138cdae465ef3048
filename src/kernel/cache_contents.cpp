// Lists and removes the contents of the kernel cache's folder. Others may keep files there too: an
// entry is recognized by its name and its first bytes, an abandoned temporary file by its name and
// by its lock, which nobody holds.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "kernel/cache_folder.h"
#include "platform/files.h"
#include "platform/temporaries.h"
#include "volta/error.h"
#include "volta/kernel_cache.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool begins_as_entry(const fs::path& path) {
  try {
    return platform::read_beginning(path.string(), kernel::kEntryMagic.size()) ==
           kernel::kEntryMagic;
  } catch (const IoError&) {  // it may have been removed meanwhile
    return false;
  }
}

constexpr std::size_t kKeyDigits = 32;
constexpr std::string_view kEntryEnd = ".bin";

// Whether the name is that of a temporary file for "<key>.bin".
bool is_temporary_entry(std::string_view name) {
  return is_hex(name.substr(0, kKeyDigits), kKeyDigits) &&
         platform::is_temporary_of(name, name.substr(0, kKeyDigits + kEntryEnd.size())) &&
         name.substr(kKeyDigits).starts_with(kEntryEnd);
}

bool is_ours(const fs::directory_entry& entry) {
  const std::string file = entry.path().filename().string();
  const std::string_view name = file;
  if (is_temporary_entry(name)) return platform::is_abandoned(entry.path().string());
  return is_hex(name.substr(0, kKeyDigits), kKeyDigits) && name.substr(kKeyDigits) == kEntryEnd &&
         begins_as_entry(entry.path());
}

}  // namespace

void kernel::remove_abandoned_entries(const fs::path& folder) {
  std::error_code failure;
  std::vector<std::string> found;
  for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure))
    if (is_temporary_entry(entry->path().filename().string()))
      found.push_back(entry->path().string());
  for (const std::string& temporary : found) platform::remove_if_abandoned(temporary);
}

std::string kernel_cache_folder() { return kernel::default_cache_folder().string(); }

std::vector<KernelCacheFile> kernel_cache_files() {
  std::vector<KernelCacheFile> files;
  const fs::path folder = kernel::default_cache_folder();
  std::error_code failure;
  if (folder.empty() || !fs::exists(folder, failure)) return files;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    std::error_code gone;
    if (fs::symlink_status(entry->path(), gone).type() != fs::file_type::regular) continue;
    const std::uint64_t bytes = entry->file_size(gone);
    if (!gone && is_ours(*entry)) files.push_back({entry->path().string(), bytes});
  }
  if (failure)
    throw IoError(
        fmt::format("{}: cannot list the folder: {}", folder.string(), failure.message()));
  std::ranges::sort(files, {}, &KernelCacheFile::path);
  return files;
}

std::vector<KernelCacheFile> clear_kernel_cache() {
  std::vector<KernelCacheFile> removed;
  std::size_t left = 0;
  std::string first_problem;
  for (KernelCacheFile& file : kernel_cache_files()) {
    std::error_code failure;
    fs::remove(file.path, failure);
    if (!failure) {
      removed.push_back(std::move(file));
    } else if (left++ == 0) {
      first_problem = fmt::format("{}: {}", file.path, failure.message());
    }
  }
  if (left > 0)
    throw IoError(
        fmt::format("{} of {} files of the kernel cache could not be removed, the first is {}",
                    left, left + removed.size(), first_problem));
  return removed;
}

}  // namespace volta
