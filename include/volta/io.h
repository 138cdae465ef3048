// Named tensors and their files: what modules and optimizers save and load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "volta/device.h"
#include "volta/tensor.h"

namespace volta {

// Tensors by name, in the order they were added.
class VOLTA_API StateDict {
 public:
  using Entry = std::pair<std::string, Tensor>;

  StateDict() = default;
  StateDict(std::initializer_list<Entry> entries);

  // Throws ArgumentError if the name is taken or the tensor is undefined.
  void add(std::string name, Tensor tensor);
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const Tensor* find(std::string_view name) const;  // nullptr if absent
  const Tensor& at(std::string_view name) const;    // throws ArgumentError if absent

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> positions_;
};

struct LoadOptions {
  Device device = Device::cpu();
};

struct SaveOptions {
  // More bytes of tensors than this go to several files: "model.safetensors" becomes
  // "model-00001-of-00003.safetensors" and so on, found through "model.safetensors.index.json". A
  // tensor is never split. 0: one file.
  std::uint64_t max_shard_bytes = 0;
  std::map<std::string, std::string> metadata = {};  // texts for the header of each file
};

// Writes a safetensors file, or several. What was saved at `path` before stays as it was until
// everything is written and synced, also if the process is killed.
VOLTA_API void save(const StateDict& state, const std::string& path,
                    const SaveOptions& options = {});
// Reads a file of safetensors or of torch.save (running no Python), an index ("*.index.json"), or
// the model in a folder ("model.safetensors", "pytorch_model.bin", an index, the only one there).
// What lies in nested dicts is named "model.conv1.weight". On the CPU tensors lie in the mapped
// file, whose bytes are read when they are first used; it may be replaced by another, as save()
// does, but must not be changed or truncated while a tensor lasts. For other devices the file is
// read here. Throws IoError naming the file and the problem.
VOLTA_API StateDict load(const std::string& path, LoadOptions options = {});

}  // namespace volta
