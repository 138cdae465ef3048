// Replaces jpeg.cpp in builds without libjpeg.
#include "data/codecs/codecs.h"
#include "volta/error.h"

namespace volta::data {

RgbImage decode_jpeg(std::span<const std::byte>, const std::string& name, std::int64_t) {
  throw IoError(name + ": a JPEG file, but this Volta was built without libjpeg");
}

LibraryInfo jpeg_library() {
  return {.name = "libjpeg", .version = {}, .note = "built without it"};
}

}  // namespace volta::data
