// The libraries that read compressed files and images.
#include "data/codecs/codecs.h"
#include "volta/system_info.h"

namespace volta {

std::vector<LibraryInfo> file_libraries() {
  return {data::gzip_library(), data::png_library(), data::jpeg_library()};
}

}  // namespace volta
