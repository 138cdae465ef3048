// Pictures: PNG and JPEG files, and folders of them by class. Errors are IoErrors that name the
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "volta/data/dataset.h"
#include "volta/export.h"
#include "volta/tensor.h"

namespace volta::data {

struct ImageOptions {
  std::int64_t channels = 3;  // 3: red, green, blue; 1: grey
  // Scaled to this size, bilinearly, averaging where it shrinks; 0: as it is.
  std::int64_t height = 0, width = 0;
  // Larger ones are refused before they are decoded. 0: four million, and 512 more for each byte of
  // the file, but at most 2^26. Decoding takes up to 24 bytes for each pixel.
  std::int64_t max_pixels = 0;
};

// f32 [channels, height, width], 0 to 1. Transparency is dropped, CMYK becomes RGB. A JPEG whose
// data is damaged here or there is read, with a warning in the log, as PIL and torchvision do; one
// that ends too early is an error.
VOLTA_API Tensor read_image(const std::string& path, ImageOptions options = {});
// The same of a file's content, PNG or JPEG by its first bytes; `name` is for messages.
VOLTA_API Tensor parse_image(std::span<const std::byte> file, const std::string& name,
                             ImageOptions options = {});

struct ImageFolderOptions {
  bool allow_empty = false;  // classes without a picture
};

// A folder with a subfolder for each class, of .png, .jpg and .jpeg files, in further subfolders
// too, which are read when they are asked for. Classes are numbered in alphabetical order, y is the
// i64 number; examples are in the order of class, folder and name, as torchvision has them. Throws
// IoError naming the classes that have no picture.
class VOLTA_API ImageFolder : public Dataset {
 public:
  explicit ImageFolder(const std::string& folder, ImageOptions options = {},
                       ImageFolderOptions folder_options = {});
  std::int64_t size() const override;
  Example get(std::int64_t index) const override;

  const std::vector<std::string>& classes() const;
  const std::string& path(std::int64_t index) const;  // of an example's file

 private:
  struct Storage;
  std::shared_ptr<const Storage> storage_;
};

}  // namespace volta::data
