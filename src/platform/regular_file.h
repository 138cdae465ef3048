// Opening regular files without ever waiting for, or affecting, other kinds of files.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

namespace volta::platform {

// Throws IoError "PATH: cannot ACT: " followed by the system's text for the error number.
[[noreturn]] void throw_file_error(const std::string& path, const char* act, int error);

// The system reads a path up to its first NUL character only, which would be another file. Throws
// IoError if there is one.
void refuse_nul(const std::string& path);

// The descriptor of a regular file. Other files are recognised without being opened, because
// opening a pipe waits for its other end and opening a device may affect it. If another file takes
// its place between the check and the opening, it is opened without waiting and refused. Throws
// IoError naming the file.
class RegularFile {
 public:
  // `flags` are those of open(2): O_RDONLY, or O_WRONLY with its modifiers.
  RegularFile(const std::string& path, int flags);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }
  off_t size() const { return size_; }  // size at the time of opening

 private:
  int descriptor_ = -1;
  off_t size_ = 0;
};

}  // namespace volta::platform
