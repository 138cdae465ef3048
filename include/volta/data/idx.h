// IDX files, MNIST's format: arrays of bytes or numbers, plain or gzip'd. And CIFAR-10's binary
// files. Every size is checked; errors are IoErrors that name the file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "volta/data/dataset.h"
#include "volta/export.h"
#include "volta/tensor.h"

namespace volta::data {

// The array in a file: u8, i32 (also of the format's 8- and 16-bit integers), f32 or f64.
VOLTA_API Tensor read_idx(const std::string& path);
// The same of a file's content; `name` is for messages.
VOLTA_API Tensor parse_idx(std::span<const std::byte> file, const std::string& name);

// Images [n, height, width] or [n, channels, height, width] of bytes, and n labels. Throws IoError
// where they do not go together.
VOLTA_API ImageDataset idx_images(const std::string& images_path, const std::string& labels_path);
// The folder has MNIST's files under their usual names, with or without .gz.
VOLTA_API ImageDataset mnist(const std::string& folder, Split split);

// Records of a label and 3 x 32 x 32 bytes, as in data_batch_1.bin; labels are 0 to 9.
VOLTA_API ImageDataset cifar10_files(const std::vector<std::string>& paths);
// The folder has CIFAR-10's files for binary programs under their usual names.
VOLTA_API ImageDataset cifar10(const std::string& folder, Split split);
// The same of one file's content.
VOLTA_API ImageDataset parse_cifar10(std::span<const std::byte> file, const std::string& name);

}  // namespace volta::data
