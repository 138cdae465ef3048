// The public face of platform/files.h, platform/temporaries.h and platform/file_lock.h; appending.
#include "volta/io/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "platform/file_lock.h"
#include "platform/files.h"
#include "platform/temporaries.h"
#include "volta/error.h"

namespace volta {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw IoError(path + ": cannot write: " + std::generic_category().message(error));
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) fail(path, errno);
  }
  ~Descriptor() { ::close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

std::string read_regular_file(const std::string& path, std::uint64_t max_bytes) {
  return platform::read_file(path, max_bytes);
}

void write_durably(const std::string& path, std::string_view content) {
  platform::AtomicFile file(path);
  file.write(content);
  file.commit();
}

void append_to_file(const std::string& path, std::string_view content) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND);
  struct stat before{};
  if (::fstat(file.get(), &before) != 0) fail(path, errno);
  while (!content.empty()) {
    const ssize_t done = ::write(file.get(), content.data(), content.size());
    if (done >= 0) {
      content.remove_prefix(static_cast<std::size_t>(done));
    } else if (errno != EINTR) {
      const int error = errno;
      // Half a line would be joined with the next one.
      if (S_ISREG(before.st_mode) && ::ftruncate(file.get(), before.st_size) != 0)
        fail(path, errno);
      fail(path, error);
    }
  }
}

void sync_file(const std::string& path) {
  const Descriptor file(path, O_WRONLY);
  if (::fsync(file.get()) != 0) fail(path, errno);
}

void rename_durably(const std::string& from, const std::string& to) {
  platform::rename_durably(from, to);
}

void remove_durably(const std::string& path) { platform::remove_durably(path); }

bool is_abandoned_temporary(const std::string& file, const std::string& path) {
  namespace fs = std::filesystem;
  return platform::is_temporary_of(fs::path(file).filename().string(),
                                   fs::path(path).filename().string()) &&
         platform::is_abandoned(file);
}

void remove_abandoned_temporaries(const std::string& path) {
  platform::remove_abandoned_temporaries(path);
}

struct FileLock::Held {
  platform::FileLock lock;
};

FileLock::FileLock(std::shared_ptr<Held> held) : held_(std::move(held)) {}

std::optional<FileLock> FileLock::try_lock(const std::string& path) {
  std::optional<platform::FileLock> lock = platform::FileLock::try_lock(path);
  if (!lock) return std::nullopt;
  return FileLock(std::make_shared<Held>(Held{std::move(*lock)}));
}

}  // namespace volta
