// Recognises and reads the formats.
#include "model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "json_file.h"
#include "train/run_files.h"
#include "volta/error.h"
#include "volta/io/durable_file.h"
#include "volta/io/npy.h"
#include "volta/safetensors.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = ".index.json";

// Returns the beginning of a regular file. Pipes and devices are not opened, because they may
// block.
std::string beginning_of(const std::string& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status))
    throw IoError(fmt::format("{}: {}", path, failure ? failure.message() : std::strerror(ENOENT)));
  if (!fs::is_regular_file(status))
    throw IoError(fmt::format("{}: neither a file nor a folder", path));
  constexpr std::size_t kEnough = 512;
  return read_beginning_of_file(path, kEnough);
}

// Returns whether the first file of a zip archive is an array; NumPy's archives hold only arrays.
bool is_npz(std::string_view start) {
  constexpr std::size_t kNameLength = 26, kName = 30;
  if (start.starts_with("PK\x05\x06")) return true;  // empty archive
  if (!start.starts_with("PK\x03\x04") || start.size() < kName) return false;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(start[i]); };
  const std::size_t length = byte(kNameLength) + 256U * byte(kNameLength + 1);
  return start.substr(kName, length).ends_with(".npy");
}

std::map<std::string, std::string> index_metadata(const std::string& path) {
  constexpr std::uint64_t kMaxBytes = 100'000'000;  // same limit as in load()
  std::map<std::string, std::string> metadata;
  // The map from tensors to files is not kept, and the number of metadata entries is limited.
  bool in_metadata = false;
  std::size_t notes = 0;
  const auto without_map = [&](int depth, Json::parse_event_t event, const Json& value) {
    if (event != Json::parse_event_t::key) return true;
    if (depth == 1) return in_metadata = value == "metadata";
    return in_metadata && ++notes <= kMaxJsonMembers;
  };
  const Json index =
      parse_json_text(text_of_file(path, kMaxBytes), without_map).value_or(Json::object());
  if (!index.is_object() || !index.contains("metadata") || !index["metadata"].is_object())
    return metadata;
  for (const auto& [key, value] : index["metadata"].items())
    metadata.emplace(key, value.is_string() ? value.get<std::string>() : value.dump());
  return metadata;
}

ModelFile read_safetensors(const std::string& path, const LoadOptions& options) {
  ModelFile model{.format = "safetensors", .state = load(path, options), .metadata = {}};
  model.metadata = SafetensorsFile(path).metadata();
  const auto format = model.metadata.find("format");
  if (format != model.metadata.end() && format->second == "volta.checkpoint")
    model.format = "training checkpoint (safetensors)";
  return model;
}

// A safetensors file has a length of 8 bytes, then a JSON object.
bool is_safetensors(std::string_view start) {
  constexpr std::size_t kLength = 8;
  constexpr std::uint64_t kLongest = 100'000'000;
  if (start.size() <= kLength || start[kLength] != '{') return false;
  std::uint64_t length = 0;
  for (std::size_t i = kLength; i-- > 0;)
    length = length << 8U | static_cast<unsigned char>(start[i]);
  return length <= kLongest;
}

ModelFile read_file(const std::string& path, bool in_place) {
  const LoadOptions options = {.mapped = in_place};
  if (path.ends_with(kIndex))
    return {.format = "shards", .state = load(path, options), .metadata = index_metadata(path)};
  const std::string start = beginning_of(path);
  if (start.starts_with("\x93NUMPY"))
    return {.format = "npy", .state = {{"tensor", load_npy(path, options)}}, .metadata = {}};
  if (is_npz(start)) return {.format = "npz", .state = load_npz(path, options), .metadata = {}};
  if (start.starts_with("PK"))
    return {.format = "PyTorch", .state = load(path, options), .metadata = {}};
  // Files from before PyTorch 1.6 begin with a pickle.
  if (start.starts_with("\x80\x02"))
    return {.format = "PyTorch", .state = load(path, options), .metadata = {}};
  // For a file with this name the safetensors reader reports the problem.
  if (!is_safetensors(start) && !path.ends_with(".safetensors")) {
    throw IoError(fmt::format(
        "{}: not a model file: {}", path,
        start.empty() ? "it is empty" : "neither safetensors, npz, npy nor PyTorch's format"));
  }
  return read_safetensors(path, options);
}

// Throws if load() could not tell which file is meant.
void refuse_without_model(const std::string& folder) {
  std::vector<std::string> indices, files;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("pytorch_model.bin")) return;
    if (name.ends_with(std::string(".safetensors") + kIndex))
      indices.push_back(std::move(name));
    else if (name.ends_with(".safetensors"))
      files.push_back(std::move(name));
  }
  if (failure) throw IoError(fmt::format("{}: {}", folder, failure.message()));
  if (indices.size() == 1 || (indices.empty() && files.size() == 1)) return;
  files.insert(files.end(), indices.begin(), indices.end());
  if (files.empty())
    throw IoError(
        fmt::format("{}: there is no model in the folder; name the file to read", folder));
  throw IoError(
      fmt::format("{}: the folder has {} files of tensors, {} among them; name the one to "
                  "read",
                  folder, files.size(), *std::ranges::min_element(files)));
}

}  // namespace

namespace {

ModelFile read_any(const std::string& path, bool in_place) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return read_file(path, in_place);
  // The last two names are those of volta train.
  const std::string best = best_file_in(path);
  for (const char* usual :
       {"model.safetensors", "model.safetensors.index.json", best.c_str(), kLastFile}) {
    const std::string inside = (fs::path(path) / usual).string();
    if (!fs::exists(inside, ignored)) continue;
    ModelFile model = read_file(inside, in_place);
    model.format = "folder of " + model.format;
    return model;
  }
  refuse_without_model(path);
  return {.format = "folder", .state = load(path, {.mapped = in_place}), .metadata = {}};
}

}  // namespace

ModelFile read_model(const std::string& path, ReadOptions options) {
  ModelFile model = read_any(path, options.in_place);
  // A command that writes or computes with the tensors must not lose any.
  if (!options.allow_unreadable && !model.state.unreadable().empty())
    throw DTypeError(model.state.unreadable().begin()->second);
  return model;
}

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  names.reserve(state.size());
  for (const auto& [name, tensor] : state) names.push_back(name);
  return names;
}

}  // namespace volta::cli
