// Locks between processes, through a locked file. The kernel releases the lock when the process
// ends, however it ends.
#pragma once

#include <optional>
#include <string>

#include "volta/export.h"

namespace volta::platform {

class VOLTA_BACKEND_API FileLock {
 public:
  // Creates and locks the file; returns nothing if another process holds the lock. Throws IoError
  // if the file cannot be created, or if the name belongs to anything but an empty regular file. On
  // file systems without locks every process succeeds.
  static std::optional<FileLock> try_lock(const std::string& path);
  // Returns whether a process holds the lock. It creates and removes no file.
  static bool is_held(const std::string& path);
  // Removes the file and releases the lock. In a forked process, which has a copy, it does neither.
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  FileLock(int descriptor, std::string path);
  int descriptor_;
  std::string path_;
  int forks_;  // forks() of the process that holds the lock
};

// Returns whether the open file is still the one at `path`, and was not removed or replaced.
bool is_file_at(int descriptor, const std::string& path);

}  // namespace volta::platform
