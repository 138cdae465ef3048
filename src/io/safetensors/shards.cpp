// Shards: their names, their index, and the search for a model in a folder.
#include "io/safetensors/shards.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "encoding/json.h"
#include "platform/files.h"
#include "platform/temporaries.h"
#include "volta/error.h"

namespace volta::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexSuffix = ".index.json";
constexpr std::string_view kSuffix = ".safetensors";

constexpr std::string_view kWriterKey = "writer", kWriter = "volta";  // in the index's metadata

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// A dangling link counts too, because writing through it would create a file elsewhere.
bool is_taken(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// "model" of "folder/model.safetensors"
std::string stem_of(const std::string& path) {
  std::string stem = fs::path(path).filename().string();
  if (stem.ends_with(kSuffix)) stem.resize(stem.size() - kSuffix.size());
  return stem;
}

// Removes `least` or more digits from the front of `text`; false if there are fewer.
bool take_digits(std::string_view& text, std::size_t least) {
  std::size_t count = 0;
  while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
  text.remove_prefix(count);
  return count >= least;
}

bool take(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

// "<stem>-00001-of-00002.safetensors" or "<stem>-v2-00001-of-00002.safetensors"
bool is_shard_name(std::string_view name, std::string_view stem) {
  if (!take(name, stem)) return false;
  if (std::string_view rest = name; take(rest, "-v") && take_digits(rest, 1)) name = rest;
  return take(name, "-") && take_digits(name, 5) && take(name, "-of-") && take_digits(name, 5) &&
         name == kSuffix;
}

// Returns whether the metadata at the reader's position names save() as the writer.
bool says_own(JsonReader& reader) {
  using enum JsonReader::Kind;
  if (reader.kind() != object) return reader.skip(), false;
  bool own = false;
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    if (*key == kWriterKey && reader.kind() == string) {
      own = reader.string() == kWriter;
    } else {
      reader.skip();
    }
  }
  return own;
}

// Returns whether the name stays within the index's own folder.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\\') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

bool is_shard_index(const std::string& path) { return path.ends_with(kIndexSuffix); }

std::string index_path_of(const std::string& path) { return path + std::string(kIndexSuffix); }

namespace {

// Reads the entries of a weight_map. Files are numbered in the order of their first occurrence.
void read_weight_map(JsonReader& reader, const std::string& path, ShardIndex& index) {
  using enum JsonReader::Kind;
  if (reader.kind() != object) throw IoError(path + ": weight_map is not a JSON object");
  std::map<std::string, std::uint32_t, std::less<>> numbers;
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    std::string tensor(*key);
    if (reader.kind() != string)
      throw IoError(fmt::format("{}: weight_map: the file of {} is not a string", path,
                                json_excerpt(tensor)));
    const std::string_view file = reader.string();
    if (!is_plain_name(file))
      throw IoError(fmt::format("{}: weight_map: {} is not the name of a file beside the index",
                                path, json_excerpt(file)));
    auto found = numbers.find(file);
    if (found == numbers.end()) {
      found = numbers.emplace(file, static_cast<std::uint32_t>(numbers.size())).first;
      index.files.emplace_back(file);
    }
    index.tensors.push_back({std::move(tensor), found->second});
  }
}

// Sorts the files by name, and the entries by the names of their tensors.
void sort(ShardIndex& index) {
  std::vector<std::uint32_t> order(index.files.size()), place(order.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {},
                    [&](std::uint32_t i) -> const std::string& { return index.files[i]; });
  std::vector<std::string> files;
  for (const std::uint32_t old : order) {
    place[old] = static_cast<std::uint32_t>(files.size());
    files.push_back(std::move(index.files[old]));
  }
  index.files = std::move(files);
  for (ShardIndex::Entry& entry : index.tensors) entry.file = place[entry.file];
  std::ranges::sort(index.tensors, {}, &ShardIndex::Entry::tensor);
}

}  // namespace

const std::string* ShardIndex::file_of(std::string_view tensor) const {
  const auto found = std::ranges::lower_bound(
      tensors, tensor, {}, [](const Entry& entry) { return std::string_view(entry.tensor); });
  return found != tensors.end() && found->tensor == tensor ? &files[found->file] : nullptr;
}

ShardIndex read_shard_index(const std::string& path) {
  const std::string text = platform::read_file(path, kMaxIndexBytes);
  JsonReader reader(text, path);
  if (reader.kind() != JsonReader::Kind::object)
    throw IoError(path + ": the index is not a JSON object");
  ShardIndex index;
  bool has_map = false;
  reader.begin_object();
  while (const auto key = reader.next_key()) {
    if (*key == "weight_map") {
      has_map = true;
      read_weight_map(reader, path, index);
    } else if (*key == "metadata") {
      index.own = says_own(reader);
    } else {
      reader.skip();
    }
  }
  reader.finish();
  if (!has_map) throw IoError(path + ": the index has no weight_map");
  sort(index);
  return index;
}

std::string resolve_model_path(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const fs::path folder(path);
  for (const char* usual : {"model.safetensors", "pytorch_model.bin"}) {
    std::string whole = (folder / usual).string();
    if (is_there(whole)) return whole;
    if (is_there(index_path_of(whole))) return index_path_of(whole);
  }
  std::vector<std::string> files, indices;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(std::string(kSuffix) + std::string(kIndexSuffix))) {
      indices.push_back(entry.path().string());
    } else if (name.ends_with(kSuffix)) {
      files.push_back(entry.path().string());
    }
  }
  if (failure) throw IoError(path + ": cannot read: " + failure.message());
  if (indices.size() == 1) return indices[0];
  if (indices.empty() && files.size() == 1) return files[0];
  throw IoError(
      fmt::format("{}: neither model.safetensors nor pytorch_model.bin is in the folder, and {} "
                  "others: name the file to read",
                  path, indices.size() + files.size()));
}

std::vector<std::vector<std::size_t>> cut_into_shards(const std::vector<std::uint64_t>& sizes,
                                                      std::uint64_t max_bytes) {
  std::vector<std::vector<std::size_t>> shards(1);
  std::uint64_t used = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool full = max_bytes > 0 && (used > max_bytes || sizes[i] > max_bytes - used);
    if (full && !shards.back().empty()) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(i);
    used += sizes[i];
  }
  return shards;
}

std::vector<std::string> free_shard_names(const std::string& path, std::size_t count) {
  const std::string stem = stem_of(path);
  const fs::path folder = fs::path(path).parent_path();
  for (int edition = 1;; ++edition) {
    const std::string tag = edition == 1 ? "" : fmt::format("-v{}", edition);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i)
      names.push_back(fmt::format("{}{}-{:05}-of-{:05}{}", stem, tag, i + 1, count, kSuffix));
    if (std::ranges::none_of(names, [&](const auto& name) { return is_taken(folder / name); }))
      return names;
  }
}

std::string shard_index_text(const std::map<std::string, std::string>& file_of,
                             std::uint64_t total_bytes) {
  std::string text = fmt::format(
      "{{\n  \"metadata\": {{\"total_size\": {}, \"{}\": \"{}\"}},\n  \"weight_map\": {{",
      total_bytes, kWriterKey, kWriter);
  const char* separator = "\n";
  for (const auto& [name, file] : file_of) {
    text += fmt::format("{}    {}: {}", separator, json_quoted(name), json_quoted(file));
    separator = ",\n";
  }
  return text + "\n  }\n}\n";
}

namespace {

// Returns the names of shards that an index of save() for the model at `path` has. An index that
// cannot be read has none.
std::vector<std::string> own_names_in(const std::string& index_path, const std::string& path) {
  try {
    ShardIndex index = read_shard_index(index_path);
    if (!index.own) return {};
    const std::string stem = stem_of(path);
    std::erase_if(index.files, [&](const std::string& name) { return !is_shard_name(name, stem); });
    return index.files;
  } catch (const IoError&) {
    return {};
  }
}

// Adds all names of files that an index has, whoever wrote it.
void add_names_in(const std::string& index_path, std::set<std::string>& names) {
  try {
    ShardIndex index = read_shard_index(index_path);
    names.insert(index.files.begin(), index.files.end());
  } catch (const IoError&) {  // it is not there, or no index
  }
}

// Removes the temporaries that killed processes left of these files, whose names are sorted.
void remove_abandoned_temporaries(const fs::path& folder, const std::vector<std::string>& names) {
  std::error_code failure;
  std::vector<std::string> found;
  fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const fs::path name = entry->path().filename(), file = name.stem().stem();
    if (platform::is_temporary_of(name.string(), file.string()) &&
        std::ranges::binary_search(names, file.string()))
      found.push_back(entry->path().string());
  }
  for (const std::string& temporary : found) platform::remove_if_abandoned(temporary);
}

}  // namespace

std::vector<std::string> own_shards(const std::string& path) {
  const std::string index_path = index_path_of(path);
  if (!is_there(index_path)) return {};
  std::vector<std::string> names = own_names_in(index_path, path);
  const fs::path folder = fs::path(path).parent_path();
  std::erase_if(names, [&](const std::string& name) {
    std::error_code ignored;
    return !fs::is_regular_file(fs::symlink_status(folder / name, ignored));
  });
  return names;
}

// A living save names no shard that exists already. So a file that is identified before the indices
// of the living are read is a shard of theirs only if they name it then.
void remove_abandoned_shards(const std::string& path) {
  const std::string index_path = index_path_of(path);
  const fs::path folder = fs::path(path).parent_path();
  const std::vector<std::string> temporaries = platform::temporaries_of(index_path);
  std::set<std::string> abandoned;
  for (const std::string& temporary : temporaries)
    if (platform::is_abandoned(temporary)) abandoned.insert(temporary);
  if (abandoned.empty()) return;
  std::map<std::string, platform::FileIdentity> left;
  for (const std::string& temporary : abandoned) {
    const std::vector<std::string> names = own_names_in(temporary, path);
    for (const std::string& name : names)
      if (const auto identity = platform::identity_of((folder / name).string()))
        left.emplace(name, *identity);
    remove_abandoned_temporaries(folder, names);
  }
  std::set<std::string> used;
  for (const std::string& temporary : temporaries)
    if (!abandoned.contains(temporary)) add_names_in(temporary, used);
  add_names_in(index_path, used);  // last, as a living save may have just renamed its index
  std::error_code ignored;
  for (const auto& [name, identity] : left)
    if (!used.contains(name) && platform::identity_of((folder / name).string()) == identity)
      fs::remove(folder / name, ignored);
  for (const std::string& temporary : abandoned) platform::remove_if_abandoned(temporary);
}

}  // namespace volta::io
