// A file of records for TensorBoard. A record is a length and its checksum, then data and its
// checksum.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "volta/export.h"

namespace volta::io {

// CRC-32C (Castagnoli).
VOLTA_BACKEND_API std::uint32_t crc32c(std::string_view bytes);
// The masked checksum that records carry.
VOLTA_BACKEND_API std::uint32_t masked_crc32c(std::string_view bytes);

// All functions throw IoError naming the file.
class EventFile {
 public:
  // Creates a new file in the folder, which is created if it is missing.
  EventFile(const std::string& folder, const std::string& suffix, double wall_time);

  void add(std::string_view data);  // buffered until flush()
  std::int64_t waiting() const { return waiting_; }
  void flush();
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_, buffer_;
  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t waiting_ = 0;
};

}  // namespace volta::io
