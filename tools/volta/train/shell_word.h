// A word of a command line that is shown to be copied.
#pragma once

#include <string>

namespace volta::cli {

// As a POSIX shell reads it back: in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace volta::cli
