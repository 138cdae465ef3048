// Files: read-only mappings, and writes that either happen completely or not at all. Failures throw
// IoError naming the file and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "volta/export.h"

namespace volta::platform {

// A whole file mapped read-only. Bytes appear when they are touched; the mapping ends with the
// object. Touching bytes of a file that was truncated meanwhile kills the process; read() does not.
// Only regular files are opened: a pipe, a device or a socket is refused before it is opened.
class VOLTA_BACKEND_API MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Copies the bytes from `offset` on by reading the file, not through the mapping. Throws IoError
  // where the file has become too short.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  // The same for a part of bytes().
  void read(std::span<const std::byte> part, std::span<std::byte> to) const {
    read(static_cast<std::uint64_t>(part.data() - data_), to);
  }
  // Gives the memory of bytes that were touched back to the system; they can be touched again.
  void forget(std::span<const std::byte> part) const;

 private:
  std::string path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The whole content of a regular file; IoError where it has more than `max_bytes`.
VOLTA_BACKEND_API std::string read_file(const std::string& path,
                                        std::uint64_t max_bytes = ~std::uint64_t{0});

struct AtomicFileOptions {
  // Synced before it appears. Without, the machine's end may leave an empty file: for what can be
  // made again and carries a checksum.
  bool durable = true;
  // Removes what killed processes left for the same path, for which the folder is listed.
  bool remove_abandoned = true;
};

// A file that replaces the one at `path` when it is complete: written under a temporary name beside
// it, synced, then renamed over it, so that a reader sees the old content or the new, never a
// mixture. Without commit() nothing stays behind, unless the process is killed: then the temporary
// file does, until the next AtomicFile for the path (platform/temporaries.h).
class VOLTA_BACKEND_API AtomicFile {
 public:
  explicit AtomicFile(std::string path, AtomicFileOptions options = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Over bytes that were written already.
  void write_at(std::uint64_t offset, std::string_view text);
  std::uint64_t written() const { return written_; }
  void commit();

 private:
  std::string path_, temporary_;
  AtomicFileOptions options_;
  int fd_ = -1;
  std::uint64_t written_ = 0;
};

// The parts one after the other, as an AtomicFile.
VOLTA_BACKEND_API void write_file_atomically(const std::string& path,
                                             std::span<const std::span<const std::byte>> parts);

// Renames a file within its folder, and makes that survive the machine's end.
VOLTA_BACKEND_API void rename_durably(const std::string& from, const std::string& to);
// Removes it, if it is there, likewise.
VOLTA_BACKEND_API void remove_durably(const std::string& path);

// Makes what was created, renamed or removed in the folder of `path` survive the machine's end.
VOLTA_BACKEND_API void sync_folder_of(const std::string& path);

}  // namespace volta::platform
