// The disk cache of compiled kernels.
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <system_error>

#include "kernel/cache_folder.h"
#include "kernel/emit.h"
#include "kernel/hash.h"
#include "platform/env.h"
#include "volta/log.h"

namespace volta::kernel {
namespace {

namespace fs = std::filesystem;

// Entry: this header, then the binary.
struct EntryHeader {
  char magic[8];
  std::uint64_t bytes;
  std::uint64_t checksum;
};
constexpr std::string_view kMagic = "VOLTAK01";

fs::path default_folder() {
  if (const auto own = platform::environment("VOLTA_CACHE_DIR")) return *own;
  if (const auto cache = platform::environment("XDG_CACHE_HOME")) return fs::path(*cache) / "volta";
  if (const auto home = platform::environment("HOME")) return fs::path(*home) / ".cache" / "volta";
  return {};
}

CacheFolder& process_folder() {
  static auto* folder = new CacheFolder(default_folder());  // outlives objects with static storage
  return *folder;
}

bool unpack(const std::string& entry, std::string& binary) {
  EntryHeader header;
  if (entry.size() < sizeof header) return false;
  std::memcpy(&header, entry.data(), sizeof header);
  const std::string_view payload = std::string_view(entry).substr(sizeof header);
  if (std::string_view(header.magic, sizeof header.magic) != kMagic ||
      header.bytes != payload.size() || header.checksum != hash_bytes(payload)) {
    return false;
  }
  binary = payload;
  return true;
}

std::string temporary_name(const std::string& key) {
  std::random_device random;
  return fmt::format("{}.{:08x}{:08x}.tmp", key, random(), random());
}

}  // namespace

bool CacheFolder::load(const std::string& key, std::string& binary) const {
  if (folder_.empty()) return false;
  std::ifstream file(entry(key), std::ios::binary);
  if (!file) return false;
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file.bad() && unpack(bytes, binary)) return true;
  file.close();
  std::error_code ignored;
  fs::remove(entry(key), ignored);
  log(LogLevel::info,
      fmt::format("kernel cache: deleted the corrupt entry {}", entry(key).string()));
  return false;
}

void CacheFolder::store(const std::string& key, const std::string& binary) {
  if (!writable_) return;
  if (folder_.empty()) return turn_off("none of VOLTA_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    return turn_off(fmt::format("cannot create {}: {}", folder_.string(), error.message()));

  EntryHeader header{{}, binary.size(), hash_bytes(binary)};
  std::memcpy(header.magic, kMagic.data(), sizeof header.magic);
  const fs::path temporary = folder_ / temporary_name(key);
  std::ofstream file(temporary, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&header), sizeof header);
  file.write(binary.data(), static_cast<std::streamsize>(binary.size()));
  file.close();
  if (file) fs::rename(temporary, entry(key), error);
  if (!file || error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    turn_off(fmt::format("cannot write to {}", folder_.string()));
  }
}

void CacheFolder::turn_off(const std::string& why) {
  if (!writable_.exchange(false)) return;
  log(LogLevel::warning,
      "kernel cache: " + why + "; kernels will be compiled again in every process");
}

KernelCache& KernelCache::instance() {
  static auto* cache = new KernelCache;  // outlives objects with static storage
  return *cache;
}

std::string KernelCache::key(const std::string& source, const std::string& options,
                             const std::string& architecture, const std::string& compiler) {
  // Two hashes of different seeds make 128 bits; the lengths keep the parts apart.
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
