// Splits a file of torch.save into the pickle of the objects and the storages by key. Since PyTorch
// 1.6 the file is a zip archive; before, it was a sequence of pickles and storages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/torch/pickle.h"
#include "io/zip/zip.h"
#include "platform/files.h"
#include "volta/export.h"

namespace volta::io {

// Returns whether a file begins like one of torch.save, since or before PyTorch 1.6.
bool is_torch_file(const platform::MappedFile& file);

// The description of a storage in the pickle.
struct StorageId {
  std::string_view type, key;
  std::int64_t elements = 0;
};
// Returns nothing if the value is not a storage as torch.save describes it.
std::optional<StorageId> storage_id_of(const PickleValue& value);

// Bytes of the file, or the bytes unpacked from it.
struct TorchBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

struct TorchArchiveOptions {
  bool mapped = false;  // bytes of the file are used in place instead of copied
  std::uint64_t max_unpacked_bytes = 0;
};

class TorchArchive {
 public:
  // Throws IoError, with the path first, if the file was not written by torch.save.
  TorchArchive(std::shared_ptr<const platform::MappedFile> file, const std::string& path,
               const Pickle::CheckGlobal& check_global, TorchArchiveOptions options);

  const Pickle& pickle() const { return *pickle_; }
  std::size_t pickle_bytes() const { return pickle_->bytes(); }
  // Returns null if the archive has no storage with this key. Each storage is read once.
  const TorchBytes* storage(std::string_view key);

 private:
  // A storage that has not been requested yet.
  struct UnreadStorage {
    std::uint64_t begin = 0, size = 0;  // in the file
    std::optional<ZipEntry> entry;      // absent in files before PyTorch 1.6
    std::optional<TorchBytes> read;
  };

  [[noreturn]] void fail(const std::string& problem) const;
  void open_zip();
  void open_old();
  std::unique_ptr<const Pickle> old_pickle(std::uint64_t begin, std::uint64_t max_memory,
                                           TorchBytes& text) const;
  std::uint64_t find_old_storages(std::uint64_t at);
  std::uint64_t most_pickle_memory() const;
  TorchBytes content_of(const ZipEntry& entry);
  void check_stored_crc(const ZipEntry& entry, std::span<const std::byte> bytes) const;
  TorchBytes copy_of(std::uint64_t begin, std::uint64_t size) const;

  std::shared_ptr<const platform::MappedFile> file_;
  const std::string& path_;
  const Pickle::CheckGlobal& check_global_;
  TorchArchiveOptions options_;
  UnpackLimit limit_;
  TorchBytes text_;  // bytes of the pickle
  std::unique_ptr<const Pickle> pickle_;
  std::unordered_map<std::string, UnreadStorage> storages_;
};

}  // namespace volta::io
