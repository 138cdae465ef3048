// The messages of a training run on the terminal while its progress bar is drawn.
#pragma once

#include <string>

#include "command.h"

namespace volta::cli {

class RunMessages {
 public:
  explicit RunMessages(Context& context) : context_(context) {}

  // Messages replace the bar, which is drawn again below them.
  void set_bar_shown(bool shown) { bar_shown_ = shown; }

  // A command to copy is printed on its own line and not broken.
  void say(const std::string& text, const std::string& command = {}) const;
  void warn(const std::string& text) const;

 private:
  void leave_bar() const;

  Context& context_;
  bool bar_shown_ = false;
};

}  // namespace volta::cli
