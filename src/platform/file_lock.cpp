// Locks through flock.
#include "platform/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "platform/fork.h"
#include "platform/regular_file.h"
#include "volta/error.h"

namespace volta::platform {

bool is_file_at(int descriptor, const std::string& path) {
  struct stat opened{}, named{};
  return ::fstat(descriptor, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

namespace {

// Lock files are empty; any other file belongs to somebody else.
bool is_empty_file(int descriptor) {
  struct stat info{};
  return ::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0;
}

}  // namespace

FileLock::FileLock(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)), forks_(forks()) {}

FileLock::FileLock(FileLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      forks_(other.forks_) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(forks_, other.forks_);
  return *this;
}

// The file is removed while the lock is held, so another process that has it open notices when it
// gets the lock. A file that has been written to is kept. A forked process only closes its copy of
// the descriptor; the parent keeps the lock.
FileLock::~FileLock() {
  if (descriptor_ < 0) return;
  if (forks_ == forks() && is_file_at(descriptor_, path_) && is_empty_file(descriptor_))
    ::unlink(path_.c_str());
  ::close(descriptor_);
}

std::optional<FileLock> FileLock::try_lock(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    throw IoError(path + ": cannot lock: " + why);
  };
  refuse_nul(path);
  for (;;) {
    // Opening a device may act on it, so the type of the file is checked first.
    struct stat info{};
    if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) refuse("not a regular file");
    const int descriptor = ::open(
        path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (descriptor < 0) refuse(std::generic_category().message(errno));
    const bool held = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (held || !is_empty_file(descriptor)) {
      ::close(descriptor);  // the other process removes the file
      if (held) return std::nullopt;
      refuse("not an empty file, as those of locks are");
    }
    FileLock lock(descriptor, path);
    if (is_file_at(descriptor, path)) return lock;
  }
}

bool FileLock::is_held(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return held;
}

}  // namespace volta::platform
