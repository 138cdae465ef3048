// What a backend inherits.
#include "backend/backend.h"

namespace volta {

Backend::~Backend() = default;

bool Backend::multiplies_halves(int, DType) const { return false; }
void* Backend::allocate_pinned(int, std::size_t) { return nullptr; }
std::size_t Backend::program_count(int /*device*/) const { return 0; }
void Backend::release_pinned(int, void*) noexcept {}

}  // namespace volta
