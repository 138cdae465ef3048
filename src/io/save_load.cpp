// Saves state dicts to safetensors files and loads them from safetensors or PyTorch files, one
// tensor at a time.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "encoding/json.h"
#include "io/common/owned_bytes.h"
#include "io/common/widen.h"
#include "io/load_file.h"
#include "io/safetensors/safetensors_checksums.h"
#include "io/safetensors/safetensors_writer.h"
#include "io/safetensors/shards.h"
#include "io/torch/torch_archive.h"
#include "io/torch/torch_file.h"
#include "platform/files.h"
#include "volta/creation.h"
#include "volta/detail/upload.h"
#include "volta/error.h"
#include "volta/io.h"
#include "volta/log.h"
#include "volta/safetensors.h"
#include "volta/transfers.h"

namespace volta {
namespace io {
namespace {

std::string problem_with(const SafetensorsFile& file, const TensorEntry& entry) {
  return fmt::format(
      "{}: tensor {}: dtype {} is not supported; F16, BF16, F32, F64, I8, I16, I32, I64, U8, U16, "
      "U32, U64, F8_E4M3, F8_E5M2 and BOOL are",
      file.path(), json_excerpt(entry.name), json_excerpt(entry.stored));
}

// The memory of a CPU tensor.
struct Elements {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

Elements elements_of(const SafetensorsFile& file, const TensorEntry& entry, bool mapped,
                     const Checksums& checksums) {
  const std::string source = fmt::format("{}: tensor {}", file.path(), json_excerpt(entry.name));
  Elements elements;
  if (mapped) {
    elements = {file.data(entry), std::make_shared<const SafetensorsFile>(file)};
  } else {
    const OwnedBytes copy(entry.bytes, source);
    file.read(entry, copy.bytes());
    elements = {copy.bytes(), copy.owner()};
  }
  checksums.verify(entry, elements.bytes);
  if (entry.content == TensorContent::widened) {
    const OwnedBytes wide = widened(entry.stored, elements.bytes, source);
    return {wide.bytes(), wide.owner()};
  }
  if (entry.dtype == DType::boolean &&
      std::ranges::any_of(elements.bytes, [](std::byte b) { return b > std::byte{1}; }))
    throw IoError(source + ": a BOOL is neither 0 nor 1");
  return elements;
}

void refuse_twice(const SafetensorsFile& file, const TensorEntry& entry, const StateDict& state) {
  if (state.contains(entry.name) || state.unreadable().contains(entry.name))
    throw IoError(fmt::format("{}: tensor {} is in another shard too", file.path(),
                              json_excerpt(entry.name)));
}

void load_to_device(const SafetensorsFile& file, Device device, StateDict& state) {
  std::vector<detail::HostArray> arrays;
  std::vector<std::shared_ptr<const void>> owners;
  const Checksums checksums(file);
  for (const TensorEntry& entry : file.tensors()) {
    if (entry.content == TensorContent::unreadable) continue;
    Elements elements = elements_of(file, entry, true, checksums);
    arrays.push_back({elements.bytes.data(), entry.shape, entry.dtype});
    if (entry.content == TensorContent::widened) owners.push_back(std::move(elements.owner));
  }
  std::vector<Tensor> moved = detail::upload_all("load", arrays, device);
  auto next = moved.begin();
  for (const TensorEntry& entry : file.tensors())
    if (entry.content != TensorContent::unreadable) state.add(entry.name, std::move(*next++));
}

}  // namespace

void load_file(const SafetensorsFile& file, const LoadOptions& options, StateDict& state) {
  for (const TensorEntry& entry : file.tensors()) {
    refuse_twice(file, entry, state);
    if (entry.content == TensorContent::unreadable)
      state.add_unreadable(entry.name, problem_with(file, entry));
  }
  if (!options.device.is_cpu()) return load_to_device(file, options.device, state);
  const Checksums checksums(file);
  for (const TensorEntry& entry : file.tensors()) {
    if (entry.content == TensorContent::unreadable) continue;
    Elements elements = elements_of(file, entry, options.mapped, checksums);
    BlobOptions blob;
    blob.deleter = [owner = std::move(elements.owner)](void*) {};
    state.add(entry.name,
              from_blob(elements.bytes.data(), entry.shape, entry.dtype, std::move(blob)));
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
                const SafetensorsMetadata& metadata,
                const platform::AtomicFileOptions& options = {}) {
  std::vector<io::TensorInfo> infos;
  infos.reserve(tensors.size());
  for (const Saved& saved : tensors) infos.push_back(saved.info);
  io::SafetensorsWriter file("save", path, infos, metadata, options);
  for (const std::size_t position : file.order()) {
    // The copy on the host lives only while it is written.
    const TransferReason reason("save");
    const Tensor host = tensors[position].tensor.to(Device::cpu());
    file.write(host.span<std::byte>());
  }
  file.commit();
}

// Saving removes only files and links, never, for example, an empty folder.
void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (fs::is_regular_file(status) || fs::is_symlink(status)) fs::remove(path, ignored);
}

// The shards of the model that was saved before. They are identified by inode and time, because
// another process may remove them and reuse their names while this one saves.
class OldShards {
 public:
  explicit OldShards(const std::string& path) {
    for (const std::string& name : io::own_shards(path)) {
      std::string file = (fs::path(path).parent_path() / name).string();
      if (const auto identity = platform::identity_of(file))
        files_.emplace_back(std::move(file), *identity);
    }
  }
  bool empty() const { return files_.empty(); }
  void remove() const {
    for (const auto& [file, identity] : files_)
      if (platform::identity_of(file) == identity) remove_quietly(file);
  }

 private:
  std::vector<std::pair<std::string, platform::FileIdentity>> files_;
};

// Throws platform::NameTaken if another process takes one of the free names first. The index is
// there under its temporary name before the first shard, so that the shards of a killed save can be
// found. After any other failure this call removes the shards written so far; they are its own,
// because no shard replaces a file.
void write_shards_once(const std::string& path, std::span<const Saved> tensors,
                       const std::vector<std::vector<std::size_t>>& shards,
                       const SafetensorsMetadata& metadata) {
  const fs::path folder = fs::path(path).parent_path();
  const std::vector<std::string> names = io::free_shard_names(path, shards.size());
  std::map<std::string, std::string> file_of;
  std::uint64_t total = 0;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    for (const std::size_t position : shards[s]) {
      file_of.emplace(tensors[position].info.name, names[s]);
      total += io::bytes_of(tensors[position].info);
    }
  }
  platform::AtomicFile index(io::index_path_of(path));
  index.write(io::shard_index_text(file_of, total));
  index.sync();
  std::size_t written = 0;
  try {
    for (; written < shards.size(); ++written) {
      std::vector<Saved> part;
      for (const std::size_t position : shards[written]) part.push_back(tensors[position]);
      write_file((folder / names[written]).string(), part, metadata, {.replace = false});
    }
    index.commit();
  } catch (...) {
    for (std::size_t s = 0; s < written; ++s) remove_quietly(folder / names[s]);
    throw;
  }
}

// Processes that save to one path at the same time each write their own shards. The last one's
// index remains.
void write_shards(const std::string& path, std::span<const Saved> tensors,
                  const std::vector<std::vector<std::size_t>>& shards,
                  const SafetensorsMetadata& metadata) {
  for (;;) {
    try {
      return write_shards_once(path, tensors, shards, metadata);
    } catch (const platform::NameTaken&) {
      continue;  // try other names
    }
  }
}

// Loads a file of either format; the content decides which one it is.
void load_one(const std::string& path, const LoadOptions& options, StateDict& state) {
  auto file = std::make_shared<const platform::MappedFile>(path);
  if (io::is_torch_file(*file)) return io::load_torch_file(file, path, options, state);
  file.reset();
  io::load_file(SafetensorsFile(path), options, state);
}

StateDict load_shards(const std::string& path, const LoadOptions& options) {
  const io::ShardIndex index = io::read_shard_index(path);
  StateDict state;
  for (const std::string& name : index.files) {
    StateDict shard;
    load_one((fs::path(path).parent_path() / name).string(), options, shard);
    const auto check = [&](const std::string& key) {
      const std::string* found = index.file_of(key);
      if (found == nullptr || *found != name)
        throw IoError(fmt::format(
            "{}: tensor {} of {} is {}", path, io::json_excerpt(key), name,
            found == nullptr ? "not in the index" : "in " + *found + " according to the index"));
    };
    for (const auto& [key, tensor] : shard) {
      check(key);
      state.add(key, tensor);
    }
    for (const auto& [key, problem] : shard.unreadable()) {
      check(key);
      state.add_unreadable(key, problem);
    }
  }
  for (const auto& [name, file] : index.tensors) {
    if (!state.contains(name) && !state.unreadable().contains(name))
      throw IoError(fmt::format("{}: tensor {} is not in {}, where the index has it", path,
                                io::json_excerpt(name), index.files[file]));
  }
  return state;
}

// Unreadable tensors are reported, because a state dict that is saved again has lost them.
void warn_of_unreadable(const StateDict& state, const std::string& path) {
  const std::size_t count = state.unreadable().size();
  if (count == 0) return;
  log(LogLevel::warning,
      fmt::format("{}: {} not read, among them: {}", path,
                  count == 1 ? "one tensor was" : fmt::format("{} tensors were", count),
                  state.unreadable().begin()->second));
}

}  // namespace

void save(const StateDict& state, const std::string& path, const SaveOptions& options) {
  std::vector<Saved> tensors;
  std::vector<std::uint64_t> sizes;
  for (const auto& [name, tensor] : state) {
    tensors.push_back({{name, tensor.dtype(), tensor.shape()}, tensor});
    sizes.push_back(io::bytes_of(tensors.back().info));
    tensor.eval();  // errors should occur before a file is created
  }
  const auto shards = io::cut_into_shards(sizes, options.max_shard_bytes);
  platform::refuse_irreplaceable(path);  // checked before a shard is written
  if (shards.size() > 1) platform::refuse_irreplaceable(io::index_path_of(path));
  io::remove_abandoned_shards(path);
  const OldShards old_shards(path);
  if (shards.size() == 1) {
    write_file(path, tensors, options.metadata);
    if (!old_shards.empty()) remove_quietly(io::index_path_of(path));
  } else {
    write_shards(path, tensors, shards, options.metadata);
    remove_quietly(path);  // otherwise the single file would be read instead of the index
  }
  old_shards.remove();
}

StateDict load(const std::string& path, LoadOptions options) {
  const std::string found = io::resolve_model_path(path);
  StateDict state;
  if (io::is_shard_index(found)) {
    state = load_shards(found, options);
  } else {
    load_one(found, options, state);
  }
  warn_of_unreadable(state, path);
  return state;
}

}  // namespace volta
