// Named tensors and their files: the state that modules and optimizers save and load.
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

// Tensors by name, in the order in which they were added.
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

  // Tensors of a file whose dtype or kind Volta does not support: their names and the problem of
  // each. They are not among the entries. at() throws the problem as a DTypeError, as does a module
  // that needs the tensor. load() logs a warning about them.
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
  // CPU tensors use the mapped file directly: loading takes only the time of the header, and bytes
  // are read on first use. Changes to the file then change the values, and truncating it kills the
  // process. By default tensors have memory of their own and later changes to the file do not
  // matter.
  bool mapped = false;
  // The total size to which the compressed entries of an archive (.npz, .pt) may unpack; 0 stands
  // for 64 MiB plus 32 times the file. More is an IoError.
  std::uint64_t max_unpacked_bytes = 0;
};

struct SaveOptions {
  // State dicts with more bytes are split into several files: "model.safetensors" becomes
  // "model-00001-of-00003.safetensors" and so on, listed in "model.safetensors.index.json". A
  // tensor is never split. 0 means one file.
  std::uint64_t max_shard_bytes = 0;
  std::map<std::string, std::string> metadata = {};  // text entries for the header of each file
};

// Writes one or several safetensors files. The previous content of `path` stays unchanged until
// everything is written and synced, even if the process is killed.
VOLTA_API void save(const StateDict& state, const std::string& path,
                    const SaveOptions& options = {});
// Reads a safetensors file, a file of torch.save (without running Python), an index
// ("*.index.json"), or the model in a folder ("model.safetensors", "pytorch_model.bin", an index,
// or the only file there). Tensors in nested dicts are named like "model.conv1.weight". The file is
// read at the call unless options.mapped is set. Throws IoError naming the file and the problem.
VOLTA_API StateDict load(const std::string& path, LoadOptions options = {});

}  // namespace volta
