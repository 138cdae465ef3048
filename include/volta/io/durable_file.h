// Files that survive: replaced as a whole, and locked against a second writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "volta/export.h"

namespace volta {

// The content of a regular file. Throws IoError for pipes, devices and the like, which it does not
// open, and for files of more than `max_bytes`.
VOLTA_API std::string read_regular_file(const std::string& path, std::uint64_t max_bytes);
// Its first bytes: at most so many, fewer where it has no more.
VOLTA_API std::string read_beginning_of_file(const std::string& path, std::size_t bytes);

// Replaces the file at `path`. It is written under a temporary name beside its place, synced and
// renamed: readers see the old content or the new one, also after a crash. The new file has the
// mode of the old one, and its owner and group where the process may give them. Throws IoError
// naming the file; then the old one is there as it was.
VOLTA_API void write_durably(const std::string& path, std::string_view content);

// Appends to the file, which is made if need be. Where not all of it can be written nothing is
// appended, and an IoError names the file; so it does for pipes, devices and the like. Synced by
// sync_file.
VOLTA_API void append_to_file(const std::string& path, std::string_view content);
// Makes what was appended survive a crash of the machine. Throws IoError.
VOLTA_API void sync_file(const std::string& path);

// Renames a file within its folder, where it takes over the rights of the one that it replaces; or
// removes it if it is there. Throws IoError.
VOLTA_API void rename_durably(const std::string& from, const std::string& to);
VOLTA_API void remove_durably(const std::string& path);

// Whether `file` is a temporary file that a killed process left for `path`; one that a living
// process writes to is not.
VOLTA_API bool is_abandoned_temporary(const std::string& file, const std::string& path);
// Removes all of them; every writer of the same path does that too.
VOLTA_API void remove_abandoned_temporaries(const std::string& path);

// An empty file that one process has locked. The lock ends with the last copy of the object, which
// then removes the file, or with the process, however it ends. Copies in a forked process hold and
// remove nothing.
class VOLTA_API FileLock {
 public:
  // Nothing where somebody else holds the lock. Throws IoError where the file cannot be made, and
  // where a file that is not empty, a link or anything else has its name: that stays as it is.
  static std::optional<FileLock> try_lock(const std::string& path);
  // Whether somebody holds the lock. Makes and removes nothing.
  static bool is_held(const std::string& path);

 private:
  struct Held;
  explicit FileLock(std::shared_ptr<Held> held);
  std::shared_ptr<Held> held_;
};

}  // namespace volta
