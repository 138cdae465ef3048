// A word of a command line that users copy.
#pragma once

#include <string>

namespace volta::cli {

// Quotes the word for a POSIX shell if necessary.
std::string shell_word(const std::string& word);

}  // namespace volta::cli
