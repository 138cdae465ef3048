// FNV-1a, for names and checksums of kernels. Not for secrets.
#pragma once

#include <cstdint>
#include <string_view>

namespace volta::kernel {

inline constexpr std::uint64_t kHashSeed = 0xcbf29ce484222325u;

constexpr std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = kHashSeed) {
  std::uint64_t hash = seed;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace volta::kernel
