// Durable files: written completely or not at all, and locked against a second writer.
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
// Reads at most `bytes` bytes from the beginning of the file.
VOLTA_API std::string read_beginning_of_file(const std::string& path, std::size_t bytes);

// Replaces the file at `path`. The content is written to a temporary file in the same folder,
// synced and renamed, so readers see the old content or the new one, also after a crash. The new
// file has the mode of the old one, and its owner and group if the process is allowed to set them.
// Throws IoError naming the file, and then the old file is unchanged.
VOLTA_API void write_durably(const std::string& path, std::string_view content);

// Appends to the file and creates it if necessary. If the content cannot be written completely,
// nothing is appended and an IoError names the file; pipes, devices and the like are refused too.
// The data is durable only after sync_file.
VOLTA_API void append_to_file(const std::string& path, std::string_view content);
// Makes appended data durable, so that it survives a crash of the machine. Throws IoError.
VOLTA_API void sync_file(const std::string& path);

// Renames a file within its folder; it takes over the permissions of a file that it replaces. Or
// removes a file if it exists. Both throw IoError.
VOLTA_API void rename_durably(const std::string& from, const std::string& to);
VOLTA_API void remove_durably(const std::string& path);

// Whether `file` is a temporary file that a killed process left behind while writing `path`.
// Temporary files of running processes are not.
VOLTA_API bool is_abandoned_temporary(const std::string& file, const std::string& path);
// Removes all such files. Every writer of the same path does this as well.
VOLTA_API void remove_abandoned_temporaries(const std::string& path);

// A lock held by one process, represented by an empty file. It ends when the last copy of the
// object is destroyed, which removes the file, or when the process ends in any way. Copies in a
// forked process neither hold the lock nor remove the file.
class VOLTA_API FileLock {
 public:
  // Returns nothing if somebody else holds the lock. Throws IoError if the file cannot be created,
  // or if the name belongs to a nonempty file, a link or anything else, which is then left
  // unchanged.
  static std::optional<FileLock> try_lock(const std::string& path);
  // Whether somebody holds the lock. Creates and removes nothing.
  static bool is_held(const std::string& path);

 private:
  struct Held;
  explicit FileLock(std::shared_ptr<Held> held);
  std::shared_ptr<Held> held_;
};

}  // namespace volta
