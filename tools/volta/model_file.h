// Files of tensors in every format that Volta reads, recognised by their content.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "volta/io.h"

namespace volta::cli {

struct ModelFile {
  std::string format;  // "safetensors", "npz", ...
  StateDict state;
  std::map<std::string, std::string> metadata;  // of a safetensors file or an index of shards
};

struct ReadOptions {
  // Tensors use the mapped file, for commands that read them once and end.
  bool in_place = true;
  // Tensors of unsupported dtypes may be missing from the state dict; otherwise they are a
  // DTypeError.
  bool allow_unreadable = false;
};

// Reads a file of safetensors, npy, npz or torch.save, an index of shards, or a folder with a
// model. Throws IoError.
ModelFile read_model(const std::string& path, ReadOptions options = {});

// Returns the names in the state dict.
std::vector<std::string> names_of(const StateDict& state);

}  // namespace volta::cli
