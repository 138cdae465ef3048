// Named tensors and their files: what modules and optimizers save and load.
#pragma once

#include <cstddef>
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

// Writes a safetensors file; the old file stays as it was if writing fails.
VOLTA_API void save(const StateDict& state, const std::string& path);
// Reads a safetensors file, its tensors in the order of their data.
VOLTA_API StateDict load(const std::string& path, LoadOptions options = {});

}  // namespace volta
