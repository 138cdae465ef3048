// Images: PNG and JPEG files, and folders of them by class. Errors are IoErrors that name the file.
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
  std::int64_t channels = 3;  // 3 for red, green, blue; 1 for grey
  // Images are scaled to this size, bilinearly, with averaging when they shrink; 0 keeps their
  // size.
  std::int64_t height = 0, width = 0;
  // Larger images are refused before they are decoded. 0 stands for four million plus 512 per byte
  // of the file, but at most 2^26. Decoding takes up to 24 bytes per pixel.
  std::int64_t max_pixels = 0;
};

// Returns f32 [channels, height, width] from 0 to 1. Transparency is dropped and CMYK becomes RGB.
// A JPEG with damaged data is read with a warning in the log, as in PIL and torchvision; a file
// that ends too early is an error.
VOLTA_API Tensor read_image(const std::string& path, ImageOptions options = {});
// Decodes the content of a file, PNG or JPEG by its first bytes; `name` appears in messages.
VOLTA_API Tensor parse_image(std::span<const std::byte> file, const std::string& name,
                             ImageOptions options = {});

struct ImageFolderOptions {
  bool allow_empty = false;  // allows classes without images
};

// A folder with one subfolder per class. Its .png, .jpg and .jpeg files, also in deeper subfolders,
// are read when they are requested. Classes are numbered alphabetically and y is the number as i64.
// Examples are ordered by class, folder and name, as in torchvision. Throws IoError naming the
// classes without images.
class VOLTA_API ImageFolder : public Dataset {
 public:
  explicit ImageFolder(const std::string& folder, ImageOptions options = {},
                       ImageFolderOptions folder_options = {});
  std::int64_t size() const override;
  Example get(std::int64_t index) const override;

  const std::vector<std::string>& classes() const;
  const std::string& path(std::int64_t index) const;  // path of an example's file

 private:
  struct Storage;
  std::shared_ptr<const Storage> storage_;
};

}  // namespace volta::data
