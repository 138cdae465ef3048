// Files through POSIX calls: mappings and atomic replacement.
#include "platform/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "platform/fork.h"
#include "platform/regular_file.h"
#include "platform/temporaries.h"
#include "volta/error.h"

namespace volta::platform {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  RegularFile file(path, O_RDONLY);
  size_ = static_cast<std::size_t>(file.size());
  if (size_ > 0) {  // mmap refuses an empty file
    void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (memory == MAP_FAILED) throw_file_error(path, "map", errno);
    data_ = static_cast<const std::byte*>(memory);
  }
  fd_ = file.release();
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

namespace {
// The size of an open file now. Truncating a file sets its size, then zeroes what lies behind it,
// so a read beside that may return zeros: what was read counts only if the file still has it.
std::uint64_t size_now(int file, const std::string& path) {
  struct stat status{};
  if (::fstat(file, &status) != 0) throw_file_error(path, "read", errno);
  return static_cast<std::uint64_t>(status.st_size);
}
}  // namespace

void MappedFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error(path_, "read", errno);
    if (got == 0) break;
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  if (!to.empty() || size_now(fd_, path_) < offset)
    throw IoError(path_ + ": cannot read: it was shortened meanwhile");
}

void MappedFile::forget(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(part.data()) % page;
  ::madvise(const_cast<std::byte*>(part.data()) - before, part.size() + before, MADV_DONTNEED);
}

namespace {
std::string first_bytes(const RegularFile& file, const std::string& path, std::size_t bytes) {
  std::string content(std::min(static_cast<std::size_t>(file.size()), bytes), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_error(path, "read", errno);
    if (got == 0) break;  // shortened meanwhile
    done += static_cast<std::size_t>(got);
  }
  content.resize(std::min<std::uint64_t>(done, size_now(file.get(), path)));
  return content;
}
}  // namespace

std::string read_file(const std::string& path, std::uint64_t max_bytes) {
  const RegularFile file(path, O_RDONLY);
  const auto size = static_cast<std::size_t>(file.size());
  if (size > max_bytes)
    throw IoError(path + ": " + std::to_string(size) + " bytes, at most " +
                  std::to_string(max_bytes) + " are read");
  return first_bytes(file, path, size);
}

std::string read_beginning(const std::string& path, std::size_t bytes) {
  return first_bytes(RegularFile(path, O_RDONLY), path, bytes);
}

namespace {
// Follows links from `path` to the file that a new one will replace. Throws for a device, a pipe or
// a folder, which a rename would destroy.
std::string file_to_replace(std::string path) {
  namespace fs = std::filesystem;
  refuse_nul(path);
  std::error_code ignored;
  for (int links = 0; links < 40 && fs::is_symlink(path, ignored); ++links) {
    const fs::path target = fs::read_symlink(path, ignored);
    path = (target.is_absolute() ? target : fs::path(path).parent_path() / target).string();
  }
  const fs::file_status status = fs::status(path, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw IoError(path + ": not a regular file, which a new one could replace");
  return path;
}

// Returns the rights of the regular file at `path`, or nothing if there is none.
std::optional<FileRights> rights_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return FileRights{info.st_mode & 0777, info.st_uid, info.st_gid};
}

// Gives the open file these rights as far as the process is allowed to. If the group cannot be set,
// the actual group gets no more rights than everybody.
void take_over(FileRights rights, int descriptor) {
  struct stat own{};
  if (::fstat(descriptor, &own) != 0) return;
  constexpr uid_t kSameOwner = static_cast<uid_t>(-1);
  constexpr gid_t kSameGroup = static_cast<gid_t>(-1);
  if (own.st_gid != rights.group && ::fchown(descriptor, kSameOwner, rights.group) != 0)
    rights.mode &= 0707 | (rights.mode & 07) << 3;
  // Without the right to give files away, the process remains the owner of the new file.
  if (own.st_uid != rights.owner) std::ignore = ::fchown(descriptor, rights.owner, kSameGroup);
  // File systems without modes refuse this. On others a file created for the writer alone gets its
  // final mode here.
  if ((own.st_mode & 0777) != rights.mode) std::ignore = ::fchmod(descriptor, rights.mode);
}

// Renames a file to a name that is not in use, or sets errno to EEXIST.
bool rename_to_free_name(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // The file system lacks this call: the file gets a second name and loses its first one.
  if (::link(from.c_str(), to.c_str()) == 0) return ::unlink(from.c_str()), true;
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) return false;
  struct stat info{};  // no hard links either: only a check before the rename remains
  errno = EEXIST;
  return ::lstat(to.c_str(), &info) != 0 && std::rename(from.c_str(), to.c_str()) == 0;
}
}  // namespace

void refuse_irreplaceable(const std::string& path) { file_to_replace(path); }

// Some file systems cannot sync a folder. The content is safe either way, so this is not an error.
void sync_folder_of(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (error == EIO || error == ENOSPC || error == EDQUOT)
    throw_file_error(folder.string(), "write", error);
}

void rename_durably(const std::string& from, const std::string& to) {
  refuse_nul(from);
  refuse_nul(to);
  if (const auto rights = rights_of(to)) {
    const int file =
        ::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file >= 0) {
      take_over(*rights, file);
      ::close(file);
    }
  }
  if (std::rename(from.c_str(), to.c_str()) != 0) throw_file_error(to, "replace", errno);
  sync_folder_of(to);
}

void remove_durably(const std::string& path) {
  refuse_nul(path);
  if (::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return;
    throw_file_error(path, "remove", errno);
  }
  sync_folder_of(path);
}

std::optional<FileIdentity> identity_of(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino, info.st_ctim.tv_sec, info.st_ctim.tv_nsec};
}

AtomicFile::AtomicFile(std::string path, AtomicFileOptions options)
    : path_(options.replace ? file_to_replace(std::move(path)) : std::move(path)),
      options_(options),
      rights_(rights_of(path_)),
      forks_(forks()) {
  if (options_.remove_abandoned) remove_abandoned_temporaries(path_);
  Temporary made = make_temporary(path_, rights_ ? 0600 : 0666);
  if (made.descriptor >= 0) {
    fd_ = made.descriptor;
    temporary_ = std::move(made.path);
    return;
  }
  const int error = errno;
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  std::error_code ignored;
  if (error == ENOENT && !folder.empty() && !std::filesystem::exists(folder, ignored))
    throw IoError(path_ + ": cannot create: the folder " + folder + " does not exist");
  throw_file_error(path_, "create", error);
}

// A forked process has a copy of the object, but the file belongs to its parent.
AtomicFile::~AtomicFile() {
  if (!temporary_.empty() && forks_ == forks()) ::unlink(temporary_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  // Linux writes at most 2 GiB per call, so large writes are done in parts.
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw_file_error(path_, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    written_ += static_cast<std::uint64_t>(done);
  }
}

void AtomicFile::write_at(std::uint64_t offset, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::pwrite(fd_, text.data(), text.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw_file_error(path_, "write", errno);
    text.remove_prefix(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void AtomicFile::sync() {
  if (::fsync(fd_) != 0) throw_file_error(path_, "write", errno);
}

void AtomicFile::commit() {
  if (const auto now = rights_of(path_)) rights_ = now;  // they may have changed
  if (rights_) take_over(*rights_, fd_);
  if (options_.durable) sync();
  // A delayed write error shows up in close; the file itself stays open, and locked, until it has
  // its name.
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy >= 0 && ::close(copy) != 0) throw_file_error(path_, "write", errno);
  if (options_.replace) {
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
      throw_file_error(path_, "replace", errno);
  } else if (!rename_to_free_name(temporary_, path_)) {
    if (errno == EEXIST) throw NameTaken(path_ + ": a file of this name exists");
    throw_file_error(path_, "create", errno);
  }
  temporary_.clear();
  ::close(std::exchange(fd_, -1));
  if (options_.durable) sync_folder_of(path_);
}

void write_file_atomically(const std::string& path,
                           std::span<const std::span<const std::byte>> parts) {
  AtomicFile file(path);
  for (const auto part : parts) file.write(part);
  file.commit();
}

}  // namespace volta::platform
