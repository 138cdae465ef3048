// The CPU backend, which is part of libvolta. It is always available, has one device and needs no
// compiler at run time. backend/cpu defines it.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "volta/export.h"

namespace volta {

VOLTA_BACKEND_API std::unique_ptr<Backend> make_cpu_backend();

}  // namespace volta
