// Messages that are logged once per process.
#pragma once

#include <string_view>

#include "volta/export.h"
#include "volta/log.h"

namespace volta {

// Logs `message` the first time `key` is seen; later calls with the same key do nothing.
VOLTA_BACKEND_API void log_once(std::string_view key, LogLevel level, std::string_view message);

}  // namespace volta
