// The disk cache of compiled kernels.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>

#include "kernel/cache.h"
#include "kernel/cache_folder.h"
#include "kernel/hash.h"
#include "platform/env.h"
#include "platform/files.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::kernel {
namespace {

namespace fs = std::filesystem;

// An entry consists of this header, the key and the binary. The checksum covers key and binary.
struct EntryHeader {
  char magic[8];
  std::uint64_t key_bytes;
  std::uint64_t bytes;
  std::uint64_t checksum;
};
constexpr std::string_view kMagic = "VOLTAK02";  // begins with kEntryMagic

std::uint64_t checksum(std::string_view key, std::string_view binary) {
  return hash_bytes(binary, hash_bytes(key));
}

CacheFolder& process_folder() {
  // Never destroyed: static destructors may use it.
  static auto* folder = new CacheFolder(default_cache_folder());
  return *folder;
}

bool unpack(const std::string& key, const std::string& entry, std::string& binary) {
  EntryHeader header;
  if (entry.size() < sizeof header + key.size()) return false;
  std::memcpy(&header, entry.data(), sizeof header);
  const std::string_view own_key = std::string_view(entry).substr(sizeof header, key.size());
  const std::string_view payload = std::string_view(entry).substr(sizeof header + key.size());
  if (std::string_view(header.magic, sizeof header.magic) != kMagic ||
      header.key_bytes != key.size() || own_key != key || header.bytes != payload.size() ||
      header.checksum != checksum(key, payload)) {
    return false;
  }
  binary = payload;
  return true;
}

// Reads an entry's file if it is a regular file: a folder, pipe or device in its place is not
// opened.
std::optional<std::string> read_entry(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  try {
    return platform::read_file(path.string());
  } catch (const IoError&) {
    return std::nullopt;
  }
}

// Creates the folder and its missing parents, accessible to this user alone.
std::error_code make_private_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return {};
  if (const fs::path above = folder.parent_path(); !above.empty() && above != folder) {
    if (const std::error_code failure = make_private_folder(above)) return failure;
  }
  // Another process may have created it meanwhile.
  if (::mkdir(folder.c_str(), 0700) == 0 || fs::is_directory(folder, error)) return {};
  return {errno, std::generic_category()};
}

// The reason why others may have written entries of a folder; empty if they cannot have, or if
// there is no such folder.
std::string why_untrusted(const fs::path& folder) {
  struct ::stat status{};
  if (::stat(folder.c_str(), &status) != 0) return {};
  if (status.st_uid != ::geteuid()) {
    return fmt::format("{} belongs to another user (number {})", folder.string(), status.st_uid);
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fmt::format("others may write to {} (chmod go-w would mend that)", folder.string());
  }
  return {};
}

}  // namespace

fs::path default_cache_folder() {
  if (const auto own = platform::environment("VOLTA_CACHE_DIR")) return *own;
  if (const auto cache = platform::environment("XDG_CACHE_HOME")) return fs::path(*cache) / "volta";
  if (const auto home = platform::environment("HOME")) return fs::path(*home) / ".cache" / "volta";
  return {};
}

bool CacheFolder::is_trusted() {
  if (refused_) return false;
  const std::string why = why_untrusted(folder_);
  if (why.empty()) return true;
  refused_ = true;
  turn_off(why);
  return false;
}

bool CacheFolder::load(const std::string& key, std::string& binary) {
  const fs::path path = entry(key);
  std::error_code error;
  if (folder_.empty() || !is_trusted() || !fs::exists(fs::symlink_status(path, error)))
    return false;
  const std::optional<std::string> bytes = read_entry(path);
  if (bytes && unpack(key, *bytes, binary)) return true;
  const bool deleted = fs::remove(path, error);
  log(LogLevel::info, fmt::format("kernel cache: {} the corrupt entry {}",
                                  deleted ? "deleted" : "cannot delete", path.string()));
  return false;
}

void CacheFolder::store(const std::string& key, const std::string& binary) {
  if (!writable_) return;
  if (folder_.empty()) return turn_off("none of VOLTA_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
  std::error_code error = make_private_folder(folder_);
  if (error)
    return turn_off(fmt::format("cannot create {}: {}", folder_.string(), error.message()));
  if (!is_trusted()) return;

  EntryHeader header{{}, key.size(), binary.size(), checksum(key, binary)};
  std::memcpy(header.magic, kMagic.data(), sizeof header.magic);
  std::call_once(cleaned_, [&] { remove_abandoned_entries(folder_); });
  try {
    // The file is not synced: an entry damaged by a power failure is detected by its checksum and
    // made again. Abandoned files are removed only once per process.
    platform::AtomicFile file(entry(key).string(), {.durable = false, .remove_abandoned = false});
    file.write({reinterpret_cast<const char*>(&header), sizeof header});
    file.write(key);
    file.write(binary);
    file.commit();
  } catch (const IoError&) {
    turn_off(fmt::format("cannot write to {}", folder_.string()));
  }
}

void CacheFolder::turn_off(const std::string& why) {
  if (!writable_.exchange(false)) return;
  log(LogLevel::warning,
      "kernel cache: " + why + "; kernels will be compiled again in every process");
}

KernelCache& KernelCache::instance() {
  static auto* cache = new KernelCache;  // never destroyed: static destructors may use it
  return *cache;
}

std::string KernelCache::key(const std::string& source, const std::string& options,
                             const std::string& architecture, const std::string& compiler) {
  // Two hashes with different seeds make 128 bits; the lengths keep the parts apart.
  std::uint64_t low = kHashSeed, high = ~kHashSeed;
  for (const std::string* part : {&source, &options, &architecture, &compiler}) {
    const std::string text = fmt::format("{}:{}", part->size(), *part);
    low = hash_bytes(text, low);
    high = hash_bytes(text, std::rotl(high, 17));
  }
  return fmt::format("{:016x}{:016x}", high, low);
}

bool KernelCache::load(const std::string& key, std::string& binary) {
  return process_folder().load(key, binary);
}

void KernelCache::store(const std::string& key, const std::string& binary) {
  process_folder().store(key, binary);
}

}  // namespace volta::kernel
