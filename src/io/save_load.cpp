// State dicts to safetensors files, and from them or PyTorch's. Tensors are written one at a time;
// on the CPU they are read where they lie in the mapped file.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "graph/upload.h"
#include "io/json.h"
#include "io/load_file.h"
#include "io/safetensors_checksums.h"
#include "io/safetensors_widen.h"
#include "io/safetensors_writer.h"
#include "io/shards.h"
#include "io/torch_file.h"
#include "platform/files.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/io.h"
#include "volta/safetensors.h"
#include "volta/transfers.h"

namespace volta {
namespace io {
namespace {

void refuse_unreadable(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : file.tensors())
    if (entry.content == TensorContent::unreadable)
      names.push_back(fmt::format("{} ({})", json_quoted(entry.name), json_quoted(entry.stored)));
  if (names.empty()) return;
  throw IoError(fmt::format(
      "{}: tensors of dtypes that Volta cannot read: {}; it reads F16, BF16, F32, F64, I8, I16, "
      "I32, I64, U8, U16, U32, U64, F8_E4M3, F8_E5M2, BOOL",
      file.path(), fmt::join(names, ", ")));
}

}  // namespace

void load_file(const SafetensorsFile& file, Device device, StateDict& state) {
  refuse_unreadable(file);
  verify_checksums(file);
  std::vector<graph::HostArray> arrays;
  std::vector<std::shared_ptr<const std::vector<std::byte>>> made(file.tensors().size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    const TensorEntry& entry = file.tensors()[i];
    std::span<const std::byte> data = file.data(entry);
    if (entry.content == TensorContent::widened) {
      made[i] = std::make_shared<const std::vector<std::byte>>(widened(file, entry));
      data = *made[i];
    }
    if (entry.dtype == DType::boolean &&
        std::ranges::any_of(data, [](std::byte b) { return b > std::byte{1}; }))
      throw IoError(fmt::format("{}: tensor {}: a BOOL is neither 0 nor 1", file.path(),
                                json_quoted(entry.name)));
    arrays.push_back({data.data(), entry.shape, entry.dtype});
  }
  std::vector<Tensor> moved;
  if (!device.is_cpu()) moved = graph::upload_all("load", arrays, device);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const TensorEntry& entry = file.tensors()[i];
    if (state.contains(entry.name))
      throw IoError(fmt::format("{}: tensor {} is in another shard too", file.path(),
                                json_quoted(entry.name)));
    if (!device.is_cpu()) {
      state.add(entry.name, std::move(moved[i]));
      continue;
    }
    // What was made, or the mapping through a copy of `file`, is kept until the tensor is gone.
    std::function<void(void*)> keeping = [file](void*) {};
    if (made[i]) keeping = [memory = made[i]](void*) {};
    state.add(entry.name,
              from_blob(arrays[i].data, entry.shape, entry.dtype, {.deleter = std::move(keeping)}));
  }
}

}  // namespace io

namespace {

namespace fs = std::filesystem;

// A tensor to be saved.
struct Saved {
  io::TensorInfo info;
  Tensor tensor;
};

void write_file(const std::string& path, std::span<const Saved> tensors,
                const SafetensorsMetadata& metadata) {
  std::vector<io::TensorInfo> infos;
  infos.reserve(tensors.size());
  for (const Saved& saved : tensors) infos.push_back(saved.info);
  io::SafetensorsWriter file("save", path, infos, metadata);
  for (const std::size_t position : file.order()) {
    // Kept on the host for the moment of writing only.
    const TransferReason reason("save");
    const Tensor host = tensors[position].tensor.to(Device::cpu());
    file.write(host.span<std::byte>());
  }
  file.commit();
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

void write_shards(const std::string& path, std::span<const Saved> tensors,
                  const std::vector<std::vector<std::size_t>>& shards,
                  const SafetensorsMetadata& metadata) {
  const fs::path folder = fs::path(path).parent_path();
  const std::vector<std::string> names = io::free_shard_names(path, shards.size());
  std::map<std::string, std::string> file_of;
  std::uint64_t total = 0;
  std::size_t written = 0;
  try {
    for (; written < shards.size(); ++written) {
      std::vector<Saved> part;
      for (const std::size_t position : shards[written]) {
        part.push_back(tensors[position]);
        file_of.emplace(part.back().info.name, names[written]);
        total += io::bytes_of(part.back().info);
      }
      write_file((folder / names[written]).string(), part, metadata);
    }
    platform::AtomicFile index(io::index_path_of(path));
    index.write(io::shard_index_text(file_of, total));
    index.commit();
  } catch (...) {
    for (std::size_t s = 0; s < written; ++s) remove_quietly(folder / names[s]);
    throw;
  }
}

// A file of either format, told apart by its content.
void load_one(const std::string& path, Device device, StateDict& state) {
  auto file = std::make_shared<const platform::MappedFile>(path);
  if (io::is_torch_file(file->bytes())) return io::load_torch_file(file, path, device, state);
  file.reset();
  io::load_file(SafetensorsFile(path), device, state);
}

StateDict load_shards(const std::string& path, Device device) {
  const io::ShardIndex index = io::read_shard_index(path);
  StateDict state;
  for (const std::string& name : index.files) {
    StateDict shard;
    load_one((fs::path(path).parent_path() / name).string(), device, shard);
    for (const auto& [key, tensor] : shard) {
      const auto found = index.file_of.find(key);
      if (found == index.file_of.end() || found->second != name)
        throw IoError(fmt::format("{}: tensor {} of {} is {}", path, io::json_quoted(key), name,
                                  found == index.file_of.end()
                                      ? "not in the index"
                                      : "in " + found->second + " according to the index"));
      state.add(key, tensor);
    }
  }
  for (const auto& [name, file] : index.file_of) {
    if (!state.contains(name))
      throw IoError(fmt::format("{}: tensor {} is not in {}, where the index has it", path,
                                io::json_quoted(name), file));
  }
  return state;
}

}  // namespace

void save(const StateDict& state, const std::string& path, const SaveOptions& options) {
  std::vector<Saved> tensors;
  std::vector<std::uint64_t> sizes;
  for (const auto& [name, tensor] : state) {
    tensors.push_back({{name, tensor.dtype(), tensor.shape()}, tensor});
    sizes.push_back(io::bytes_of(tensors.back().info));
    tensor.eval();  // what fails should fail before a file is begun
  }
  const auto shards = io::cut_into_shards(sizes, options.max_shard_bytes);
  const std::vector<std::string> old_shards = io::own_shards(path);
  if (shards.size() == 1) {
    write_file(path, tensors, options.metadata);
    if (!old_shards.empty()) remove_quietly(io::index_path_of(path));
  } else {
    write_shards(path, tensors, shards, options.metadata);
    remove_quietly(path);  // a folder's single file would be read in place of the index
  }
  for (const std::string& name : old_shards) remove_quietly(fs::path(path).parent_path() / name);
}

StateDict load(const std::string& path, LoadOptions options) {
  const std::string found = io::resolve_model_path(path);
  if (io::is_shard_index(found)) return load_shards(found, options.device);
  StateDict state;
  load_one(found, options.device, state);
  return state;
}

}  // namespace volta
