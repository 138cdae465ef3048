// Records of an event file and their checksums.
#include "io/events/event_file.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "volta/error.h"

namespace volta::io {
namespace {

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    table[i] = crc;
  }
  return table;
}();

std::string little_endian(std::uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

[[noreturn]] void fail(const std::string& path, const char* act, int error) {
  throw IoError(
      fmt::format("{}: cannot {}: {}", path, act, std::generic_category().message(error)));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

EventFile::EventFile(const std::string& folder, const std::string& suffix, double wall_time) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw IoError(folder + ": cannot create the folder: " + failure.message());
  // The number tells apart runs that begin in the same second.
  for (int number = 0; !file_; ++number) {
    path_ = (std::filesystem::path(folder) / fmt::format("events.out.tfevents.{:010}.volta.{}{}",
                                                         static_cast<std::int64_t>(wall_time),
                                                         number, suffix))
                .string();
    file_.reset(std::fopen(path_.c_str(), "wbxe"));
    if (!file_ && errno != EEXIST) fail(path_, "create", errno);
  }
}

void EventFile::add(std::string_view data) {
  const std::string length = little_endian(data.size(), 8);
  buffer_ += length;
  buffer_ += little_endian(masked_crc32c(length), 4);
  buffer_ += data;
  buffer_ += little_endian(masked_crc32c(data), 4);
  ++waiting_;
}

void EventFile::flush() {
  const bool written =
      std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get()) == buffer_.size() &&
      std::fflush(file_.get()) == 0;
  buffer_.clear();  // after a partial write the rest would be no valid record
  waiting_ = 0;
  if (!written) fail(path_, "write", errno);
}

}  // namespace volta::io
