// CIFAR-10 in its binary version.
#include <cstdint>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "platform/files.h"
#include "volta/data/idx.h"
#include "volta/error.h"

namespace volta::data {
namespace {

constexpr std::size_t kPixelBytes = 3 * 32 * 32;
constexpr std::size_t kRecordBytes = 1 + kPixelBytes;
constexpr int kClasses = 10;

struct Records {
  std::vector<std::uint8_t> pixels, labels;

  void add(std::span<const std::byte> file, const std::string& name) {
    if (file.size() % kRecordBytes != 0) {
      throw IoError(fmt::format("{}: {} bytes are no whole number of records of {}", name,
                                file.size(), kRecordBytes));
    }
    const std::size_t count = file.size() / kRecordBytes, before = labels.size();
    labels.resize(before + count);
    pixels.resize((before + count) * kPixelBytes);
    for (std::size_t i = 0; i < count; ++i) {
      const std::byte* record = file.data() + i * kRecordBytes;
      labels[before + i] = static_cast<std::uint8_t>(record[0]);
      if (labels[before + i] >= kClasses) {
        throw IoError(fmt::format("{}: label {} in record {} is not below {}", name,
                                  labels[before + i], i, kClasses));
      }
      std::memcpy(pixels.data() + (before + i) * kPixelBytes, record + 1, kPixelBytes);
    }
  }

  ImageDataset dataset() { return {Shape{3, 32, 32}, std::move(pixels), std::move(labels)}; }
};

}  // namespace

ImageDataset parse_cifar10(std::span<const std::byte> file, const std::string& name) {
  Records records;
  records.add(file, name);
  return records.dataset();
}

ImageDataset cifar10_files(const std::vector<std::string>& paths) {
  Records records;
  for (const std::string& path : paths) {
    const std::string file = platform::read_file(path);
    records.add(std::as_bytes(std::span(file)), path);
  }
  return records.dataset();
}

ImageDataset cifar10(const std::string& folder, Split split) {
  const std::filesystem::path base(folder);
  if (split == Split::test) return cifar10_files({(base / "test_batch.bin").string()});
  std::vector<std::string> paths;
  for (int i = 1; i <= 5; ++i)
    paths.push_back((base / fmt::format("data_batch_{}.bin", i)).string());
  return cifar10_files(paths);
}

}  // namespace volta::data
