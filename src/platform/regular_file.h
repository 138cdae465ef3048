// Regular files, opened without ever waiting for, or acting on, anything else.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

namespace volta::platform {

// Throws IoError: "PATH: cannot ACT: " and the system's words for the error number.
[[noreturn]] void throw_file_error(const std::string& path, const char* act, int error);

// The system reads a path up to its first NUL character only, which would be another file. Throws
// IoError if there is one.
void refuse_nul(const std::string& path);

// The descriptor of a regular file. Others are looked at but not opened: to open a pipe waits for
// its other end, to open a device may act on it. What takes the file's place between the look and
// the opening is opened without waiting, and refused. Throws IoError naming the file.
class RegularFile {
 public:
  // `flags` as of open(2): O_RDONLY, or O_WRONLY with what else belongs to it.
  RegularFile(const std::string& path, int flags);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  off_t size() const { return size_; }  // when it was opened

 private:
  int descriptor_ = -1;
  off_t size_ = 0;
};

}  // namespace volta::platform
