// What a backend inherits.
#include "backend/backend.h"

namespace volta {

Backend::~Backend() = default;

void* Backend::allocate_pinned(int, std::size_t) { return nullptr; }
void Backend::release_pinned(int, void*) noexcept {}

}  // namespace volta
