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

  // Tensors of a file whose elements are of a dtype or a kind that Volta does not have: their
  // names, and what there is to say about each. They are not among the entries; at() of one throws
  // that as a DTypeError, and so does a module that needs it. load() warns of them in the log.
  void add_unreadable(std::string name, std::string problem);
  const std::map<std::string, std::string, std::less<>>& unreadable() const { return unreadable_; }

  std::size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> positions_;
  std::map<std::string, std::string, std::less<>> unreadable_;
};

struct LoadOptions {
  Device device = Device::cpu();
  // On the CPU, tensors lie in the mapped file: loading takes the time of the header, and bytes are
  // read when they are first used. Whoever changes the file changes the values, and whoever
  // truncates it kills the process. By default tensors have memory of their own, which nothing that
  // happens to the file afterwards touches.
  bool mapped = false;
  // What the compressed entries of an archive (.npz, .pt) may unpack to, all together; 0: 64 MiB
  // and 32 times the file. More is an IoError.
  std::uint64_t max_unpacked_bytes = 0;
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
// What lies in nested dicts is named "model.conv1.weight". The file is read at the call, unless
// options.mapped says otherwise. Throws IoError naming the file and the problem.
VOLTA_API StateDict load(const std::string& path, LoadOptions options = {});

}  // namespace volta
