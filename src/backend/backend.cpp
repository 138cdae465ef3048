// Defaults of the Backend interface.
#include "backend/backend.h"

namespace volta {

Backend::~Backend() = default;
StreamEvent::~StreamEvent() = default;

bool Backend::multiplies_halves(int, DType) const { return false; }
void* Backend::allocate_pinned(int, std::size_t) { return nullptr; }
std::size_t Backend::program_count(int /*device*/) const { return 0; }
void Backend::release_pinned(int, void*) noexcept {}

void Backend::upload_in_copy_stream(int device, Address destination, const void* source,
                                    std::size_t bytes) {
  upload(device, destination, source, bytes);
}
void Backend::download_in_copy_stream(int device, void* destination, Address source,
                                      std::size_t bytes) {
  download(device, destination, source, bytes);
}
void Backend::begin_download(int device, void* destination, Address source, std::size_t bytes) {
  download(device, destination, source, bytes);
}

}  // namespace volta
