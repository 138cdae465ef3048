// Indices of sharded models of any bytes give an IoError, or names of files beside the index, with
// every tensor in one of them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "fuzz/memory_file.h"
#include "io/safetensors/shards.h"
#include "volta/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile memory(data, size);
  try {
    const volta::io::ShardIndex index = volta::io::read_shard_index(memory.path());
    if (!std::ranges::is_sorted(index.files)) std::abort();
    for (const std::string& file : index.files)
      if (file.find('/') != std::string::npos || file == "..") std::abort();
    for (const auto& [tensor, file] : index.tensors) {
      const std::string* found = index.file_of(tensor);
      if (found == nullptr || *found != index.files.at(file)) std::abort();
    }
  } catch (const volta::IoError&) {
  }
  return 0;
}
