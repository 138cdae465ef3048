// Models in several safetensors files, in the layout of Hugging Face: an index
// "model.safetensors.index.json" says which file has which tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "volta/export.h"

namespace volta::io {

// An index as it was read, checked: names of files are plain, none leaves the index's folder.
struct ShardIndex {
  struct Entry {
    std::string tensor;
    std::uint32_t file;  // of `files`
  };
  std::vector<Entry> tensors;      // sorted by name
  std::vector<std::string> files;  // each once, sorted
  bool own = false;                // save() wrote it

  // Null where the index does not have the tensor.
  VOLTA_BACKEND_API const std::string* file_of(std::string_view tensor) const;
};
inline constexpr std::uint64_t kMaxIndexBytes = 100'000'000;  // as much as a safetensors header
VOLTA_BACKEND_API ShardIndex read_shard_index(const std::string& path);

bool is_shard_index(const std::string& path);
// "model.safetensors" -> "model.safetensors.index.json"
std::string index_path_of(const std::string& path);

// What to read for a path that names a file, an index or a folder: a file or an index.
std::string resolve_model_path(const std::string& path);

// Positions of tensors of these sizes, cut into shards in their order; at least one per shard.
VOLTA_BACKEND_API std::vector<std::vector<std::size_t>> cut_into_shards(
    const std::vector<std::uint64_t>& sizes, std::uint64_t max_bytes);

// Names for so many shards of the model at `path`, none of which is a file yet: those of a model
// saved before are in use until the new index replaces the old.
std::vector<std::string> free_shard_names(const std::string& path, std::size_t count);

// The text of an index.
std::string shard_index_text(const std::map<std::string, std::string>& file_of,
                             std::uint64_t total_bytes);

// The shards of the model that save() wrote to `path` before: the index beside it says that save()
// wrote it, and they are regular files with names that free_shard_names gives. Whatever else an
// index names is not ours to remove.
std::vector<std::string> own_shards(const std::string& path);

}  // namespace volta::io
