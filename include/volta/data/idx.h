// IDX files (MNIST's format: arrays of bytes or numbers, plain or gzipped) and CIFAR-10's binary
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

// Reads an array as u8, i32 (also from 8- and 16-bit integers), f32 or f64.
VOLTA_API Tensor read_idx(const std::string& path);
// Parses the content of a file; `name` appears in messages.
VOLTA_API Tensor parse_idx(std::span<const std::byte> file, const std::string& name);

// Reads images [n, height, width] or [n, channels, height, width] of bytes and n labels. Throws
// IoError if the two files do not match.
VOLTA_API ImageDataset idx_images(const std::string& images_path, const std::string& labels_path);
// Reads MNIST's files from a folder, under their usual names, with or without .gz.
VOLTA_API ImageDataset mnist(const std::string& folder, Split split);

// Reads records of a label from 0 to 9 and 3 x 32 x 32 bytes, as in data_batch_1.bin.
VOLTA_API ImageDataset cifar10_files(const std::vector<std::string>& paths);
// Reads CIFAR-10's binary version from a folder, under the usual file names.
VOLTA_API ImageDataset cifar10(const std::string& folder, Split split);
// Parses the content of one file.
VOLTA_API ImageDataset parse_cifar10(std::span<const std::byte> file, const std::string& name);

}  // namespace volta::data
