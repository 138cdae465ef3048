// The public face of platform/files.h, platform/temporaries.h and platform/file_lock.h; appending.
#include "volta/io/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "platform/file_lock.h"
#include "platform/files.h"
#include "platform/regular_file.h"
#include "platform/temporaries.h"

namespace volta {

std::string read_regular_file(const std::string& path, std::uint64_t max_bytes) {
  return platform::read_file(path, max_bytes);
}

std::string read_beginning_of_file(const std::string& path, std::size_t bytes) {
  return platform::read_beginning(path, bytes);
}

void write_durably(const std::string& path, std::string_view content) {
  platform::AtomicFile file(path);
  file.write(content);
  file.commit();
}

void append_to_file(const std::string& path, std::string_view content) {
  const platform::RegularFile file(path, O_WRONLY | O_CREAT | O_APPEND);
  while (!content.empty()) {
    const ssize_t done = ::write(file.get(), content.data(), content.size());
    if (done >= 0) {
      content.remove_prefix(static_cast<std::size_t>(done));
    } else if (errno != EINTR) {
      const int error = errno;
      // Half a line would be joined with the next one.
      if (::ftruncate(file.get(), file.size()) != 0)
        platform::throw_file_error(path, "write", errno);
      platform::throw_file_error(path, "write", error);
    }
  }
}

void sync_file(const std::string& path) {
  const platform::RegularFile file(path, O_WRONLY);
  if (::fsync(file.get()) != 0) platform::throw_file_error(path, "write", errno);
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

bool FileLock::is_held(const std::string& path) { return platform::FileLock::is_held(path); }

}  // namespace volta
