// npz files: npy files in a zip archive.
#include <fmt/format.h>

#include "encoding/json.h"
#include "io/npy_format.h"
#include "io/zip/zip.h"
#include "platform/files.h"
#include "volta/error.h"
#include "volta/io/npy.h"

namespace volta {
namespace {
constexpr std::string_view kSuffix = ".npy";
}

StateDict load_npz(const std::string& path, LoadOptions options) {
  const auto file = std::make_shared<const platform::MappedFile>(path);
  const bool mapped = options.mapped || !options.device.is_cpu();
  io::UnpackLimit limit(options.max_unpacked_bytes, file->bytes().size());
  StateDict state;
  for (const io::ZipEntry& entry : io::read_zip(*file, path)) {
    if (!entry.name.ends_with(kSuffix))
      throw IoError(
          fmt::format("{}: entry {} is not an npy file", path, io::json_quoted(entry.name)));
    const std::string source = path + ": " + entry.name;
    std::shared_ptr<const void> owner = file;
    std::span<const std::byte> content = file->bytes().subspan(entry.begin, entry.packed);
    if (entry.deflated || !mapped) {
      const io::OwnedBytes read = io::read_entry(*file, entry, limit, path);
      content = read.bytes();
      owner = read.owner();
    }
    io::check_crc(entry, content, path);
    state.add(entry.name.substr(0, entry.name.size() - kSuffix.size()),
              io::read_npy(content, std::move(owner), source, options.device));
  }
  return state;
}

void save_npz(const StateDict& state, const std::string& path, NpzOptions options) {
  for (const auto& [name, tensor] : state) {
    if (io::valid_utf8_prefix(name) != name.size())
      throw ArgumentError("save_npz: " + path + ": a name is not valid UTF-8");
    io::npy_header("save_npz", tensor);  // errors should occur before a file is created
    tensor.eval();
  }
  platform::AtomicFile file(path);
  io::ZipWriter archive(file);
  for (const auto& [name, tensor] : state) {
    const Tensor host = tensor.detach().to(Device::cpu());
    const std::string header = io::npy_header("save_npz", tensor);
    archive.add(name + std::string(kSuffix), std::as_bytes(std::span(header)),
                host.span<std::byte>(), options.compress);
  }
  archive.finish();
  file.commit();
}

}  // namespace volta
