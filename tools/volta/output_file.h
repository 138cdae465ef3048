// Checks the output file of a command before the work begins.
#pragma once

#include <string>

namespace volta::cli {

// Throws UsageError if the name is taken, even by a dangling link, unless `force` allows replacing
// it. Throws IoError if the folder is missing or not writable.
void check_output(const std::string& path, bool force);

}  // namespace volta::cli
