// Replaces gzip.cpp in builds without zlib.
#include "data/codecs/codecs.h"
#include "volta/error.h"

namespace volta::data {

std::vector<std::byte> gunzip(std::span<const std::byte>, const std::string& name, std::size_t,
                              const std::function<std::uint64_t(std::span<const std::byte>)>&) {
  throw IoError(name + ": a gzip file, but this Volta was built without zlib");
}

LibraryInfo gzip_library() { return {.name = "zlib", .version = {}, .note = "built without it"}; }

}  // namespace volta::data
