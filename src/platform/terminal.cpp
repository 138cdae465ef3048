// Terminals through POSIX calls.
#include "platform/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace volta::platform {

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

int terminal_columns() {
  struct winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace volta::platform
