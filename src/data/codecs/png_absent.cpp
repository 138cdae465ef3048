// Replaces png.cpp in builds without libpng.
#include "data/codecs/codecs.h"
#include "volta/error.h"

namespace volta::data {

RgbImage decode_png(std::span<const std::byte>, const std::string& name, std::int64_t) {
  throw IoError(name + ": a PNG file, but this Volta was built without libpng");
}

LibraryInfo png_library() { return {.name = "libpng", .version = {}, .note = "built without it"}; }

}  // namespace volta::data
