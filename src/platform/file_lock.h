// Locks between processes: a file that one of them has locked. The kernel releases the lock when
// its process ends, however it ends.
#pragma once

#include <optional>
#include <string>

#include "volta/export.h"

namespace volta::platform {

class VOLTA_BACKEND_API FileLock {
 public:
  // Makes the file and locks it; nothing where somebody else holds the lock. Throws IoError where
  // the file cannot be made. File systems without locks give every process its own.
  static std::optional<FileLock> try_lock(const std::string& path);
  // Removes the file and releases the lock.
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  FileLock(int descriptor, std::string path);
  int descriptor_;
  std::string path_;
};

// Whether the open file is still the one that has this name, and not one that was removed or
// replaced meanwhile.
bool is_file_at(int descriptor, const std::string& path);

}  // namespace volta::platform
