// What torch.save makes a file of, taken apart: the pickle of the objects, and the storages by
// their keys. Since PyTorch 1.6 that is a zip archive; before, pickles and storages in a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "io/pickle.h"
#include "io/zip.h"
#include "platform/files.h"
#include "volta/export.h"

namespace volta::io {

// Whether these bytes begin as torch.save's do, now or before PyTorch 1.6.
VOLTA_BACKEND_API bool is_torch_file(std::span<const std::byte> file);

// What the pickle says of a storage.
struct StorageId {
  std::string_view type, key;
  std::int64_t elements = 0;
};
// None where the value is not a storage as torch.save describes it.
std::optional<StorageId> storage_id_of(const PickleValue& value);

// Bytes of the file, or what they unpack to.
struct TorchBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

struct TorchArchiveOptions {
  bool mapped = false;  // bytes of the file are used where they lie, not copied
  std::uint64_t max_unpacked_bytes = 0;
};

class TorchArchive {
 public:
  // Throws IoError, beginning with the path, for what is no file of torch.save.
  TorchArchive(std::shared_ptr<const platform::MappedFile> file, const std::string& path,
               const Pickle::CheckGlobal& check_global, TorchArchiveOptions options);

  const Pickle& pickle() const { return *pickle_; }
  std::size_t pickle_bytes() const { return pickle_->bytes(); }
  // Nothing where the archive has none of that key. Each is read once.
  const TorchBytes* storage(std::string_view key);

 private:
  // A storage that was not asked for yet.
  struct Place {
    std::span<const std::byte> bytes;
    std::optional<ZipEntry> entry;  // none before PyTorch 1.6
    std::optional<TorchBytes> read;
  };

  [[noreturn]] void fail(const std::string& problem) const;
  void open_zip();
  void open_old();
  std::size_t find_old_storages(std::span<const std::byte> rest);
  void read_pickle(std::span<const std::byte> bytes, bool alone);
  TorchBytes content_of(const ZipEntry& entry);
  void check_stored_crc(const ZipEntry& entry, std::span<const std::byte> bytes) const;
  TorchBytes copy_of(std::span<const std::byte> bytes) const;

  std::shared_ptr<const platform::MappedFile> file_;
  const std::string& path_;
  const Pickle::CheckGlobal& check_global_;
  TorchArchiveOptions options_;
  UnpackLimit limit_;
  TorchBytes text_;  // of the pickle
  std::optional<Pickle> pickle_;
  std::unordered_map<std::string, Place> storages_;
};

}  // namespace volta::io
