// Temporary files through open, flock and unlink.
#include "platform/temporaries.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

#include "platform/file_lock.h"

namespace volta::platform {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 16;
constexpr std::string_view kEnd = ".tmp";
constexpr std::size_t kSuffix = 1 + kDigits + kEnd.size();
constexpr std::size_t kLongestName = 255;  // limit of Linux's file systems

// The names of a file's temporaries begin with its own name, cut off if there is not enough room.
std::string_view stem_of(std::string_view file) {
  return file.substr(0, std::min(file.size(), kLongestName - kSuffix));
}

std::string random_suffix() {
  std::random_device random;
  const std::uint64_t number = std::uint64_t{random()} << 32 | random();
  std::array<char, 1 + kDigits + 1> text{};
  std::snprintf(text.data(), text.size(), ".%016llx", static_cast<unsigned long long>(number));
  return std::string(text.data()) + std::string(kEnd);
}

// Opens and locks the temporary file. Returns -1 if another process holds its lock.
int open_abandoned(const std::string& temporary) {
  const int descriptor =
      ::open(temporary.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return -1;
  struct stat info{};
  if (::fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
      ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 && is_file_at(descriptor, temporary))
    return descriptor;
  ::close(descriptor);
  return -1;
}

}  // namespace

Temporary make_temporary(const std::string& path, unsigned mode) {
  const fs::path file(path);
  const std::string name = file.filename().string(), stem(stem_of(name));
  // A name collision is practically impossible, but a clean-up may remove the file before it is
  // locked.
  for (int attempt = 0; attempt < 100; ++attempt) {
    Temporary made{-1, (file.parent_path() / (stem + random_suffix())).string()};
    made.descriptor = ::open(made.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (made.descriptor < 0 && errno == EEXIST) continue;
    if (made.descriptor < 0) return made;
    // Some file systems have no locks. There nobody can take the lock of a temporary, so none is
    // removed.
    const bool locked = ::flock(made.descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (locked && is_file_at(made.descriptor, made.path)) return made;
    ::close(made.descriptor);
  }
  errno = EEXIST;
  return {};
}

bool is_temporary_of(std::string_view name, std::string_view file) {
  const std::string_view stem = stem_of(file);
  if (name.size() != stem.size() + kSuffix || !name.starts_with(stem) || !name.ends_with(kEnd))
    return false;
  const std::string_view digits = name.substr(stem.size() + 1, kDigits);
  return name[stem.size()] == '.' && std::ranges::all_of(digits, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_abandoned(const std::string& temporary) {
  const int descriptor = open_abandoned(temporary);
  if (descriptor < 0) return false;
  ::close(descriptor);
  return true;
}

bool remove_if_abandoned(const std::string& temporary) {
  const int descriptor = open_abandoned(temporary);
  if (descriptor < 0) return false;
  const bool removed = ::unlink(temporary.c_str()) == 0;
  ::close(descriptor);
  return removed;
}

std::vector<std::string> temporaries_of(const std::string& path) {
  const fs::path file(path);
  const std::string name = file.filename().string();
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code failure;
  std::vector<std::string> found;
  for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure))
    if (is_temporary_of(entry->path().filename().string(), name))
      found.push_back(entry->path().string());
  return found;
}

void remove_abandoned_temporaries(const std::string& path) {
  for (const std::string& temporary : temporaries_of(path)) remove_if_abandoned(temporary);
}

}  // namespace volta::platform
