// The file that a command will write, looked at before the work that it is for.
#pragma once

#include <string>

namespace volta::cli {

// Throws UsageError where there is something of this name already, a link that leads nowhere too,
// and `force` does not allow to replace it; IoError where its folder is missing or cannot be
// written to.
void check_output(const std::string& path, bool force);

}  // namespace volta::cli
