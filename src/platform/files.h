// Files: read-only mappings, and writes that happen completely or not at all. Failures throw
// IoError with the file and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "volta/error.h"
#include "volta/export.h"

namespace volta::platform {

// A whole file mapped read-only. Pages are read when they are touched; the mapping ends with the
// object. Touching a page of a file that was truncated meanwhile kills the process; read() does
// not. Only regular files are opened: pipes, devices and sockets are refused.
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
  // if the file has become too short.
  void read(std::uint64_t offset, std::span<std::byte> to) const;
  // Copies a part of bytes() in the same way.
  void read(std::span<const std::byte> part, std::span<std::byte> to) const {
    read(static_cast<std::uint64_t>(part.data() - data_), to);
  }
  // Returns the memory of touched pages to the system. They can be touched again.
  void forget(std::span<const std::byte> part) const;

 private:
  std::string path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Returns the whole content of a regular file. Throws IoError if it has more than `max_bytes`.
VOLTA_BACKEND_API std::string read_file(const std::string& path,
                                        std::uint64_t max_bytes = ~std::uint64_t{0});
// Returns at most the first `bytes` bytes of a regular file.
VOLTA_BACKEND_API std::string read_beginning(const std::string& path, std::size_t bytes);

// Throws IoError if `path`, or the target of a link there, is a device, a pipe or a folder, which a
// new file must not replace.
VOLTA_BACKEND_API void refuse_irreplaceable(const std::string& path);

struct AtomicFileOptions {
  // The file is synced before it appears. Without this, a power failure may leave an empty file,
  // which is acceptable for files that can be made again and carry a checksum.
  bool durable = true;
  // Lists the folder and removes the temporary files that killed processes left for the same path.
  bool remove_abandoned = true;
  // If false, commit() throws NameTaken if a file or link of this name exists.
  bool replace = true;
};

class VOLTA_BACKEND_API NameTaken : public IoError {
 public:
  using IoError::IoError;
};

// Mode, owner and group of a file.
struct FileRights {
  unsigned mode = 0, owner = 0, group = 0;
};

// A file that replaces the one at `path` when it is complete. It is written under a temporary name
// in the same folder, synced and renamed, so a reader sees the old content or the new, never a
// mixture. Without commit() nothing stays behind. A killed process leaves the temporary file until
// the next AtomicFile for the path (platform/temporaries.h). The new file takes the mode of the
// file it replaces, and its owner and group if the process is allowed to set them. Until commit()
// only the writer can read a file that is to replace another.
class VOLTA_BACKEND_API AtomicFile {
 public:
  explicit AtomicFile(std::string path, AtomicFileOptions options = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Overwrites bytes that were written before.
  void write_at(std::uint64_t offset, std::string_view text);
  std::uint64_t written() const { return written_; }
  // Makes what was written survive a power failure, still under the temporary name.
  void sync();
  void commit();

 private:
  std::string path_, temporary_;
  AtomicFileOptions options_;
  std::optional<FileRights> rights_;  // rights of the file to be replaced
  int forks_;                         // forks() of the process that made it
  int fd_ = -1;
  std::uint64_t written_ = 0;
};

// Writes the parts one after the other through an AtomicFile.
VOLTA_BACKEND_API void write_file_atomically(const std::string& path,
                                             std::span<const std::span<const std::byte>> parts);

// Renames a file within its folder and syncs the folder, so that the new name survives a power
// failure. If it replaces a file, it takes that file's rights, as an AtomicFile does.
VOLTA_BACKEND_API void rename_durably(const std::string& from, const std::string& to);
// Removes the file, if it exists, and syncs the folder.
VOLTA_BACKEND_API void remove_durably(const std::string& path);

// Identifies the regular file at a path. The time tells apart files that got the same inode number
// one after the other. Links are not followed.
struct FileIdentity {
  std::uint64_t device = 0, number = 0;
  std::int64_t seconds = 0, nanoseconds = 0;  // time of the last change
  bool operator==(const FileIdentity&) const = default;
};
VOLTA_BACKEND_API std::optional<FileIdentity> identity_of(const std::string& path);

// Makes created, renamed and removed files in the folder of `path` survive a power failure.
VOLTA_BACKEND_API void sync_folder_of(const std::string& path);

}  // namespace volta::platform
