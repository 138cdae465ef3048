// Helpers for the tests of data: errors by part of their message, and temporary folders.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "volta/error.h"

namespace volta::data_testing {

// Expects the act to throw this type of error with a message that contains every part.
template <class Exception, class Act>
void expect_error(Act act, std::initializer_list<std::string_view> parts) {
  try {
    act();
    ADD_FAILURE() << "no error; expected: " << *parts.begin();
  } catch (const Exception& error) {
    for (const std::string_view part : parts)
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
          << error.what() << "\nlacks: " << part;
  }
}

class Folder {
 public:
  Folder() {
    static int serial = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("volta_data_" + std::to_string(::getpid()) + "_" + std::to_string(serial++));
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

  // Returns the file's path.
  std::string write(const std::string& name, std::string_view content) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return file.string();
  }

 private:
  std::filesystem::path path_;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Returns a string of bytes given as numbers.
inline std::string raw(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text.push_back(static_cast<char>(byte));
  return text;
}

inline std::string big_endian(std::uint32_t value) {
  return raw({static_cast<int>(value >> 24), static_cast<int>(value >> 16 & 255),
              static_cast<int>(value >> 8 & 255), static_cast<int>(value & 255)});
}

}  // namespace volta::data_testing
