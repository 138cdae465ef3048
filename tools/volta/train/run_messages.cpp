#include "train/run_messages.h"

#include "output/units.h"

namespace volta::cli {

void RunMessages::say(const std::string& text, const std::string& command) const {
  if (context_.quiet) return;
  const Terminal& terminal = context_.err_terminal;
  const std::string shown = printable(text, terminal);
  leave_bar();
  context_.err << (terminal.wraps ? wrapped(shown, terminal.columns, 2) : shown);
  if (!command.empty())
    context_.err << (terminal.wraps ? "\n" : " ") << printable(command, terminal);
  context_.err << '\n';
}

void RunMessages::warn(const std::string& text) const {
  if (!context_.quiet) leave_bar();
  context_.warn(text);
}

void RunMessages::leave_bar() const {
  if (bar_shown_ && context_.err_terminal.interactive) context_.err << "\r\x1b[K";
}

}  // namespace volta::cli
