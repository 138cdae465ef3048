// Locks through flock.
#include "platform/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "volta/error.h"

namespace volta::platform {

bool is_file_at(int descriptor, const std::string& path) {
  struct stat opened{}, named{};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

FileLock::FileLock(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {}

FileLock::FileLock(FileLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

// The file goes while the lock is held: who opened it before finds it gone once it has the lock.
FileLock::~FileLock() {
  if (descriptor_ < 0) return;
  if (is_file_at(descriptor_, path_)) ::unlink(path_.c_str());
  ::close(descriptor_);
}

std::optional<FileLock> FileLock::try_lock(const std::string& path) {
  for (;;) {
    const int descriptor =
        ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (descriptor < 0)
      throw IoError(path + ": cannot lock: " + std::generic_category().message(errno));
    FileLock lock(descriptor, path);
    const bool held = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (held) {
      ::close(std::exchange(lock.descriptor_, -1));  // the file is somebody else's to remove
      return std::nullopt;
    }
    if (is_file_at(descriptor, path)) return lock;
  }
}

}  // namespace volta::platform
