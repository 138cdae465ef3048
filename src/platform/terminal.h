// The terminal behind the standard error stream, if there is one.
#pragma once

namespace volta::platform {

bool stderr_is_terminal();
// The number of characters in a line, or 80 if unknown.
int terminal_columns();

}  // namespace volta::platform
