// Zip archives with stored or deflated entries and the 64-bit extensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/common/owned_bytes.h"
#include "platform/files.h"
#include "volta/export.h"

namespace volta::io {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  std::uint32_t crc = 0;
  std::uint64_t size = 0;               // size when unpacked
  std::uint64_t begin = 0, packed = 0;  // position and size of its bytes in the archive
};

// Returns the entries of an archive, in the order of its directory. Throws IoError, with `source`
// first, for invalid archives: ranges outside of the archive or overlapping, duplicate names, sizes
// that deflated data cannot have, encryption. The archive is read without touching its mapping.
VOLTA_BACKEND_API std::vector<ZipEntry> read_zip(const platform::MappedFile& archive,
                                                 const std::string& source);

// Limits the total size of the unpacked entries of an archive. Deflate expands by up to 1,032
// times, so without a limit a small file could fill the memory.
class VOLTA_BACKEND_API UnpackLimit {
 public:
  static constexpr std::uint64_t kFreeBytes = std::uint64_t{64} << 20, kGrowth = 32;

  // Allows `wanted` bytes, or kGrowth times the archive plus kFreeBytes if `wanted` is 0.
  UnpackLimit(std::uint64_t wanted, std::uint64_t archive_bytes);
  // Called before memory is allocated for an entry. Throws IoError naming
  // LoadOptions::max_unpacked_bytes.
  void spend(std::uint64_t bytes, const std::string& source);

 private:
  std::uint64_t most_, left_;
};

// Returns the content of an entry in memory of its own, unpacked if it is deflated. Throws IoError
// if deflated data does not give `entry.size` bytes, or exceeds the limit.
VOLTA_BACKEND_API OwnedBytes read_entry(const platform::MappedFile& archive, const ZipEntry& entry,
                                        UnpackLimit& limit, const std::string& source);
// Throws IoError unless the CRC of the content matches the entry's.
VOLTA_BACKEND_API void check_crc(const ZipEntry& entry, std::span<const std::byte> content,
                                 const std::string& source);

// Writes an archive entry by entry.
class VOLTA_BACKEND_API ZipWriter {
 public:
  // Sizes and offsets of at least `zip64_from` use the 64-bit fields; the format's value is 2^32 -
  // 1.
  explicit ZipWriter(platform::AtomicFile& file, std::uint64_t zip64_from = 0xFFFFFFFF)
      : file_(file), zip64_from_(zip64_from) {}

  // Adds an entry whose content is `head` followed by `body`.
  void add(std::string_view name, std::span<const std::byte> head, std::span<const std::byte> body,
           bool deflated);
  // Writes the directory after the last entry.
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
