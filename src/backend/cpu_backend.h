// The CPU backend: always there, one device, no compiler needed at run time.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "volta/export.h"

namespace volta {

VOLTA_BACKEND_API std::unique_ptr<Backend> make_cpu_backend();

}  // namespace volta
