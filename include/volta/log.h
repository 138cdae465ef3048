// Messages from the library. Everything is printed through the handler; the default handler writes
// warnings and errors to stderr. VOLTA_LOG=debug|info|warning|error|off sets the level.
#pragma once

#include <functional>
#include <string_view>

#include "volta/export.h"

namespace volta {

enum class LogLevel { debug, info, warning, error, off };

using LogHandler = std::function<void(LogLevel, std::string_view)>;

// Replaces the handler; an empty one restores the default. The handler gets no messages below the
// level.
VOLTA_API void set_log_handler(LogHandler handler);
VOLTA_API void set_log_level(LogLevel level);
VOLTA_API LogLevel log_level();

// Sends one message; for extensions and backends.
VOLTA_API void log(LogLevel level, std::string_view message);

}  // namespace volta
