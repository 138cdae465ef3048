// Files of tensors in every format that Volta reads, told apart by their content.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "volta/io.h"

namespace volta::cli {

struct ModelFile {
  std::string format;  // "safetensors", "npz", ...
  StateDict state;
  std::map<std::string, std::string> metadata;  // of safetensors, or of an index of shards
};

struct ReadOptions {
  // Tensors lie in the mapped file, for commands that go over them once and end.
  bool in_place = true;
  // The state dict may lack tensors of dtypes that Volta does not have; else they are a DTypeError.
  bool allow_unreadable = false;
};

// A file of safetensors, npy, npz or torch.save, an index of shards, or a folder with a model.
// Throws IoError.
ModelFile read_model(const std::string& path, ReadOptions options = {});

// The names of the state dict.
std::vector<std::string> names_of(const StateDict& state);

}  // namespace volta::cli
