// The two containers that torch.save has written.
#include "io/torch/torch_archive.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "encoding/json.h"
#include "io/torch/torch_names.h"
#include "volta/error.h"

namespace volta::io {
namespace {

constexpr std::string_view kZipStart = "PK\3\4";
constexpr std::string_view kOldMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::int64_t kOldProtocol = 1001;
constexpr std::string_view kPickle = "data.pkl";

constexpr std::uint64_t kMaxPickle = 100'000'000;
// The values of the pickle may take kPickleGrowth times the size of the file plus kFreePickle
// bytes.
constexpr std::uint64_t kPickleGrowth = 4, kFreePickle = std::uint64_t{64} << 20;
constexpr std::size_t kMaxKey = 256;  // longest key of a storage; PyTorch's keys are numbers

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the size of an element of this storage type, or 0 if it is unknown.
std::uint64_t element_size(std::string_view type) {
  if (contains_name(kUntyped, type)) return 1;
  for (const TorchDType& dtype : kTorchDTypes)
    if (!type.empty() && dtype.storage == type) return dtype.size;
  return 0;
}

}  // namespace

bool is_torch_file(const platform::MappedFile& file) {
  std::array<std::byte, 32> bytes;
  const std::span<std::byte> first =
      std::span(bytes).first(std::min(file.bytes().size(), bytes.size()));
  file.read(0, first);
  const std::string_view start = text_of(first);
  // The length of a safetensors header may look like these bytes. Byte 8 is then '{', which is not
  // a compression method of zip.
  if (start.starts_with(kZipStart)) return start.size() < 9 || start[8] != '{';
  return start.starts_with('\x80') && start.find(kOldMagic) != std::string_view::npos;
}

std::optional<StorageId> storage_id_of(const PickleValue& value) {
  const auto* outside = value.as<PickleValue::Persistent>();
  const auto* id = outside != nullptr ? outside->id->as<PickleValue::Tuple>() : nullptr;
  if (id == nullptr || id->items.size() < 5 || id->items.size() > 6) return std::nullopt;
  const auto* kind = id->items[0]->as<std::string_view>();
  const auto* key = id->items[2]->as<std::string_view>();
  const auto* elements = id->items[4]->as<std::int64_t>();
  if (kind == nullptr || *kind != "storage" || key == nullptr || elements == nullptr ||
      *elements < 0)
    return StorageId{{}, {}, -1};
  // Before PyTorch 1.6, a sixth value may make the storage a part of another one.
  if (id->items.size() == 6 && id->items[5]->as<PickleValue::None>() == nullptr)
    return StorageId{{}, {}, -1};
  return StorageId{id->items[1]->global(), *key, *elements};
}

TorchArchive::TorchArchive(std::shared_ptr<const platform::MappedFile> file,
                           const std::string& path, const Pickle::CheckGlobal& check_global,
                           TorchArchiveOptions options)
    : file_(std::move(file)),
      path_(path),
      check_global_(check_global),
      options_(options),
      limit_(options.max_unpacked_bytes, file_->bytes().size()) {
  std::array<std::byte, kZipStart.size()> start{};
  if (file_->bytes().size() >= start.size()) file_->read(0, start);
  text_of(start) == kZipStart ? open_zip() : open_old();
}

void TorchArchive::fail(const std::string& problem) const { throw IoError(path_ + ": " + problem); }

// ---- Files since PyTorch 1.6.
void TorchArchive::open_zip() {
  std::unordered_map<std::string, ZipEntry> entries;
  for (ZipEntry& entry : read_zip(*file_, path_)) {
    std::string name = entry.name;
    entries.emplace(std::move(name), std::move(entry));
  }
  std::string prefix;  // folder in the archive
  for (const auto& [name, entry] : entries) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos || std::string_view(name).substr(slash + 1) != kPickle) continue;
    if (!prefix.empty()) fail("two folders of the archive have a data.pkl");
    prefix = name.substr(0, slash + 1);
  }
  if (prefix.empty())
    fail(
        "a zip archive without a data.pkl is no file of torch.save; load_npz reads NumPy's "
        "archives");
  if (entries.contains(prefix + "constants.pkl"))
    fail(
        fmt::format("a TorchScript archive has code: save its tensors alone, "
                    "torch.save(torch.jit.load(path).state_dict(), path), {}",
                    kSafetensorsHint));
  if (const auto order = entries.find(prefix + "byteorder"); order != entries.end()) {
    if (text_of(content_of(order->second).bytes) != "little")
      fail("its byte order is not \"little\": save it again on a little-endian machine");
  }
  const ZipEntry& text = entries.at(prefix + std::string(kPickle));
  if (text.size > kMaxPickle)
    fail(fmt::format("a data.pkl of {} bytes exceeds the limit of {}", text.size, kMaxPickle));
  const std::string folder = prefix + "data/";
  for (auto& [name, entry] : entries) {
    if (!name.starts_with(folder) || name.size() - folder.size() > kMaxKey) continue;
    UnreadStorage place;
    place.begin = entry.begin;
    place.size = entry.packed;
    place.entry = entry;
    storages_.emplace(name.substr(folder.size()), std::move(place));
  }
  text_ = content_of(text);
  pickle_ = std::make_unique<const Pickle>(text_.bytes, path_, check_global_,
                                           PickleOptions{.max_memory = most_pickle_memory()});
}

std::uint64_t TorchArchive::most_pickle_memory() const {
  return kFreePickle + kPickleGrowth * file_->bytes().size();
}

// PyTorch writes zeros if an option leaves out the CRCs (set_crc32_options).
void TorchArchive::check_stored_crc(const ZipEntry& entry, std::span<const std::byte> bytes) const {
  if (entry.crc != 0) check_crc(entry, bytes, path_);
}

// Returns the entry's content, unpacked if it is deflated. torch.save itself does not deflate.
TorchBytes TorchArchive::content_of(const ZipEntry& entry) {
  const OwnedBytes content = read_entry(*file_, entry, limit_, path_);
  if (entry.deflated) {
    check_crc(entry, content.bytes(), path_);
  } else {
    check_stored_crc(entry, content.bytes());
  }
  return {content.bytes(), content.owner()};
}

// ---- Files before PyTorch 1.6: pickles of a magic number, a protocol, the machine's sizes, the
// objects and the keys of the storages, then each storage's number of elements and its elements.
void TorchArchive::open_old() {
  TorchBytes text;
  std::uint64_t at = 0;
  const auto next = [&] {
    auto pickle = old_pickle(at, PickleOptions().max_memory, text);
    at += pickle->bytes();
    return pickle;
  };
  next();  // the magic number, which is_torch_file() has checked
  const auto version = next();
  const auto* protocol = version->root().as<std::int64_t>();
  if (protocol == nullptr || *protocol != kOldProtocol) fail("its protocol is not 1001");
  const auto sizes = next();
  if (const auto* dict = sizes->root().as<PickleValue::Dict>()) {
    for (std::size_t i = 0; i + 1 < dict->items.size(); i += 2) {
      const auto* key = dict->items[i]->as<std::string_view>();
      const auto* value = dict->items[i + 1]->as<bool>();
      if (key != nullptr && *key == "little_endian" && (value == nullptr || !*value))
        fail("its byte order is not \"little\": save it again on a little-endian machine");
    }
  }
  pickle_ = old_pickle(at, most_pickle_memory(), text_);
  const std::uint64_t end = find_old_storages(at + pickle_->bytes());
  if (end != file_->bytes().size())
    fail(fmt::format("{} bytes after the last storage", file_->bytes().size() - end));
}

// Reads the pickle that begins there into `text`, where its strings are. Only the pickle says where
// it ends, so more and more of the file is read until it does.
std::unique_ptr<const Pickle> TorchArchive::old_pickle(std::uint64_t begin,
                                                       std::uint64_t max_memory,
                                                       TorchBytes& text) const {
  constexpr std::uint64_t kFirst = std::uint64_t{1} << 18, kMore = 8;
  const std::uint64_t most = std::min(file_->bytes().size() - begin, kMaxPickle);
  for (std::uint64_t size = std::min(kFirst, most);; size = std::min(kMore * size, most)) {
    text = copy_of(begin, size);
    try {
      return std::make_unique<const Pickle>(
          text.bytes, path_, check_global_,
          PickleOptions{.max_memory = max_memory, .alone = false});
    } catch (const IoError&) {
      if (size == most) throw;
    }
  }
}

// Finds the storages, whose keys begin there, and returns where the last one ends.
std::uint64_t TorchArchive::find_old_storages(std::uint64_t at) {
  std::unordered_map<std::string_view, StorageId> known;
  for (const PickleValue& value : pickle_->values())
    if (const auto id = storage_id_of(value); id && id->elements >= 0) known.emplace(id->key, *id);
  TorchBytes text;
  const auto keys = old_pickle(at, PickleOptions().max_memory, text);
  const std::uint64_t size_of_file = file_->bytes().size();
  const PickleValues* list = keys->root().items();
  if (list == nullptr) fail("the keys of its storages are no list");
  at += keys->bytes();
  for (const PickleValue* item : *list) {
    const auto* key = item->as<std::string_view>();
    const auto id = key != nullptr ? known.find(*key) : known.end();
    if (id == known.end()) fail("it has a storage that no tensor has");
    const std::uint64_t size = element_size(id->second.type);
    if (size == 0) fail(fmt::format("storage {}: its dtype is not known", json_excerpt(*key)));
    std::uint64_t elements = 0, bytes = 0;
    std::array<std::byte, 8> number;
    if (size_of_file - at < number.size()) fail("it ends before its storages do");
    file_->read(at, number);
    for (std::size_t i = number.size(); i-- > 0;)
      elements = elements << 8 | std::to_integer<std::uint64_t>(number[i]);
    at += number.size();
    if (elements != static_cast<std::uint64_t>(id->second.elements))
      fail(fmt::format("storage {}: {} elements, and {} are in the pickle", json_excerpt(*key),
                       elements, id->second.elements));
    if (__builtin_mul_overflow(elements, size, &bytes) || bytes > size_of_file - at)
      fail("it ends before its storages do");
    UnreadStorage place;
    place.begin = at;
    place.size = bytes;
    if (!storages_.emplace(std::string(*key), std::move(place)).second)
      fail(fmt::format("storage {} occurs twice", json_excerpt(*key)));
    at += bytes;
  }
  return at;
}

// ---- Storages.
TorchBytes TorchArchive::copy_of(std::uint64_t begin, std::uint64_t size) const {
  const OwnedBytes copy(size, path_);
  file_->read(begin, copy.bytes());
  return {copy.bytes(), copy.owner()};
}

const TorchBytes* TorchArchive::storage(std::string_view key) {
  const auto found = key.size() <= kMaxKey ? storages_.find(std::string(key)) : storages_.end();
  if (found == storages_.end()) return nullptr;
  UnreadStorage& place = found->second;
  if (!place.read) {
    if (place.entry && place.entry->deflated) {
      place.read = content_of(*place.entry);
    } else {
      place.read = options_.mapped
                       ? TorchBytes{file_->bytes().subspan(place.begin, place.size), file_}
                       : copy_of(place.begin, place.size);
      if (place.entry) check_stored_crc(*place.entry, place.read->bytes);
    }
  }
  return &*place.read;
}

}  // namespace volta::io
