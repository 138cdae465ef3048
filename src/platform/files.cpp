// Files through POSIX calls: mappings and atomic replacement.
#include "platform/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "platform/temporaries.h"
#include "volta/error.h"

namespace volta::platform {
namespace {

[[noreturn]] void fail(const std::string& path, const char* act, int error) {
  throw IoError(path + ": cannot " + act + ": " + std::generic_category().message(error));
}

void refuse_other_than_regular(const struct stat& info, const std::string& path) {
  if (!S_ISREG(info.st_mode)) throw IoError(path + ": cannot read: not a regular file");
}

// A regular file open for reading. Others are looked at but not opened: to open a pipe waits for a
// writer, to open a device may act on it. What takes the file's place between the look and the
// opening is opened without waiting, and refused.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) fail(path, "open", errno);
    refuse_other_than_regular(info, path);
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd_ < 0) fail(path, "open", errno);
    try {
      if (::fstat(fd_, &info) != 0) fail(path, "read", errno);
      refuse_other_than_regular(info, path);
    } catch (...) {
      ::close(fd_);
      throw;
    }
    size_ = static_cast<std::size_t>(info.st_size);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  std::size_t size() const { return size_; }

 private:
  int fd_ = -1;
  std::size_t size_ = 0;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  Descriptor file(path);
  size_ = file.size();
  if (size_ > 0) {  // mmap refuses an empty file
    void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (memory == MAP_FAILED) fail(path, "map", errno);
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

void MappedFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "read", errno);
    if (got == 0) throw IoError(path_ + ": cannot read: it was shortened meanwhile");
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

void MappedFile::forget(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t before = reinterpret_cast<std::uintptr_t>(part.data()) % page;
  ::madvise(const_cast<std::byte*>(part.data()) - before, part.size() + before, MADV_DONTNEED);
}

std::string read_file(const std::string& path, std::uint64_t max_bytes) {
  const Descriptor file(path);
  if (file.size() > max_bytes)
    throw IoError(path + ": " + std::to_string(file.size()) + " bytes, at most " +
                  std::to_string(max_bytes) + " are read");
  std::string content(file.size(), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = ::read(file.get(), content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, "read", errno);
    if (got == 0) break;  // shortened meanwhile
    done += static_cast<std::size_t>(got);
  }
  content.resize(done);
  return content;
}

namespace {
// What a new file takes the place of: the file itself where `path` is a link to one. Throws where
// that is a device, a pipe or a folder, which a rename would put out of the world.
std::string file_to_replace(std::string path) {
  namespace fs = std::filesystem;
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
}  // namespace

// Some file systems cannot sync a folder: the content is safe either way, so that is not an error.
void sync_folder_of(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (error == EIO || error == ENOSPC || error == EDQUOT) fail(folder.string(), "write", error);
}

void rename_durably(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail(to, "replace", errno);
  sync_folder_of(to);
}

void remove_durably(const std::string& path) {
  if (::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return;
    fail(path, "remove", errno);
  }
  sync_folder_of(path);
}

AtomicFile::AtomicFile(std::string path, AtomicFileOptions options)
    : path_(file_to_replace(std::move(path))), options_(options) {
  if (options_.remove_abandoned) remove_abandoned_temporaries(path_);
  Temporary made = make_temporary(path_);
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
  fail(path_, "create", error);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  // Linux writes at most 2 GiB per call; larger requests come back short.
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(path_, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    written_ += static_cast<std::uint64_t>(done);
  }
}

void AtomicFile::write_at(std::uint64_t offset, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::pwrite(fd_, text.data(), text.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(path_, "write", errno);
    text.remove_prefix(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
}

void AtomicFile::commit() {
  if (options_.durable && ::fsync(fd_) != 0) fail(path_, "write", errno);
  // A delayed write error shows up in close; the file itself stays open, and locked, until it has
  // its name.
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy >= 0 && ::close(copy) != 0) fail(path_, "write", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "replace", errno);
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
