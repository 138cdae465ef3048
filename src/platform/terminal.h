// The terminal that the standard error stream may be.
#pragma once

namespace volta::platform {

bool stderr_is_terminal();
// Characters in a line of it; 80 where that is not known.
int terminal_columns();

}  // namespace volta::platform
