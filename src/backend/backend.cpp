// What a backend inherits.
#include "backend/backend.h"

namespace volta {

Backend::~Backend() = default;

bool Backend::multiplies_halves(int) const { return false; }
void* Backend::allocate_pinned(int, std::size_t) { return nullptr; }
void Backend::release_pinned(int, void*) noexcept {}

}  // namespace volta
