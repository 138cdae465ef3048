// Opening regular files through POSIX calls.
#include "platform/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "volta/error.h"

namespace volta::platform {

void throw_file_error(const std::string& path, const char* act, int error) {
  throw IoError(path + ": cannot " + act + ": " + std::generic_category().message(error));
}

void refuse_nul(const std::string& path) {
  if (const std::size_t at = path.find('\0'); at != std::string::npos)
    throw IoError(path.substr(0, at) + "\\0...: the path has a NUL character");
}

RegularFile::RegularFile(const std::string& path, int flags) {
  refuse_nul(path);
  const bool reads = (flags & O_ACCMODE) == O_RDONLY;
  const char* const act = reads ? "read" : "write";
  const auto refuse_others = [&](const struct stat& info) {
    if (!S_ISREG(info.st_mode)) throw IoError(path + ": cannot " + act + ": not a regular file");
  };
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) refuse_others(info);
  descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  if (descriptor_ < 0) throw_file_error(path, reads ? "open" : act, errno);
  try {
    if (::fstat(descriptor_, &info) != 0) throw_file_error(path, act, errno);
    refuse_others(info);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  size_ = info.st_size;
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace volta::platform
