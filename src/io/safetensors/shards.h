// Models in several safetensors files, in Hugging Face's layout: an index
// "model.safetensors.index.json" says which file has which tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "volta/export.h"

namespace volta::io {

// A checked index: names of files are plain and stay within the index's folder.
struct ShardIndex {
  struct Entry {
    std::string tensor;
    std::uint32_t file;  // index into `files`
  };
  std::vector<Entry> tensors;      // sorted by name
  std::vector<std::string> files;  // sorted, without duplicates
  bool own = false;                // save() wrote it

  // Returns null if the tensor is not in the index.
  VOLTA_BACKEND_API const std::string* file_of(std::string_view tensor) const;
};
// Same limit as for a safetensors header.
inline constexpr std::uint64_t kMaxIndexBytes = 100'000'000;
VOLTA_BACKEND_API ShardIndex read_shard_index(const std::string& path);

bool is_shard_index(const std::string& path);
// "model.safetensors" -> "model.safetensors.index.json"
std::string index_path_of(const std::string& path);

// Returns the file or index to read for a path that names a file, an index or a folder.
std::string resolve_model_path(const std::string& path);

// Splits tensors of these sizes into shards, in order, with at least one per shard. Returns
// indices.
VOLTA_BACKEND_API std::vector<std::vector<std::size_t>> cut_into_shards(
    const std::vector<std::uint64_t>& sizes, std::uint64_t max_bytes);

// Returns unused names for `count` shards of the model at `path`. The shards of a model saved
// before stay in use until the new index replaces the old one.
std::vector<std::string> free_shard_names(const std::string& path, std::size_t count);

// Returns the text of an index.
std::string shard_index_text(const std::map<std::string, std::string>& file_of,
                             std::uint64_t total_bytes);

// A save of shards writes its index first, under a temporary name, and renames it when all shards
// are there. Removes the shards that such indices of killed saves to `path` name, and then these
// indices. Shards that the model or a living save has stay.
void remove_abandoned_shards(const std::string& path);

// Returns the shards of the model that save() wrote to `path` before. The index must name save() as
// its writer, and the shards must be regular files with names of free_shard_names. Other files in
// an index are never removed.
std::vector<std::string> own_shards(const std::string& path);

}  // namespace volta::io
