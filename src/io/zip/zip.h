// Zip archives: entries stored or deflated, with the 64-bit extensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/owned_bytes.h"
#include "platform/files.h"
#include "volta/export.h"

namespace volta::io {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t size = 0;           // unpacked
  std::span<const std::byte> data;  // as it lies in the archive
};

// The entries of an archive that lies in memory, in the order of its directory. Throws IoError,
// beginning with `source`, for whatever is out of place: ranges outside of the archive or over each
// other, names that occur twice, sizes that deflated data cannot have, encryption.
VOLTA_BACKEND_API std::vector<ZipEntry> read_zip(std::span<const std::byte> archive,
                                                 const std::string& source);

// How much the deflated entries of one archive may unpack to. Deflate makes up to 1,032 bytes of
// one: without a limit a small file fills the memory.
class VOLTA_BACKEND_API UnpackLimit {
 public:
  static constexpr std::uint64_t kFreeBytes = std::uint64_t{64} << 20, kGrowth = 32;

  // `wanted` bytes; 0: kGrowth times the archive, and kFreeBytes.
  UnpackLimit(std::uint64_t wanted, std::uint64_t archive_bytes);
  // Before memory is taken for an entry: throws IoError that names LoadOptions::max_unpacked_bytes.
  void spend(std::uint64_t bytes, const std::string& source);

 private:
  std::uint64_t most_, left_;
};

// What a deflated entry unpacks to; throws IoError where that is not `entry.size` bytes, or more
// than the limit leaves.
VOLTA_BACKEND_API OwnedBytes inflate_entry(const ZipEntry& entry, UnpackLimit& limit,
                                           const std::string& source);
// Throws IoError unless this is the entry's content by its CRC.
VOLTA_BACKEND_API void check_crc(const ZipEntry& entry, std::span<const std::byte> content,
                                 const std::string& source);

// Writes an archive entry by entry.
class VOLTA_BACKEND_API ZipWriter {
 public:
  // Sizes and offsets from `zip64_from` on, 2^32 - 1 in the format, go into the 64-bit fields.
  explicit ZipWriter(platform::AtomicFile& file, std::uint64_t zip64_from = 0xFFFFFFFF)
      : file_(file), zip64_from_(zip64_from) {}

  // The entry's content in two parts.
  void add(std::string_view name, std::span<const std::byte> head, std::span<const std::byte> body,
           bool deflated);
  // The directory, after the last entry.
  void finish();

 private:
  struct Written {
    std::string name;
    bool deflated;
    std::uint32_t crc;
    std::uint64_t size, packed, offset;
  };
  bool is_large(std::uint64_t value) const { return value >= zip64_from_; }
  std::string directory_entry(const Written& entry) const;

  platform::AtomicFile& file_;
  std::uint64_t zip64_from_;
  std::vector<Written> entries_;
};

}  // namespace volta::io
