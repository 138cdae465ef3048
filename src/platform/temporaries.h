// Temporary files beside the file that they will replace: "<file>.<16 random hex digits>.tmp". The
// writer holds a lock (flock) on the file, which the kernel releases however the process ends. If
// the lock can be taken, the writer was killed and the file may be removed; a file that a living
// process writes is never removed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "volta/export.h"

namespace volta::platform {

// Creates a temporary for the file at `path`, open for writing and locked, with `mode` reduced by
// the umask. On failure the descriptor is negative and errno says why.
struct Temporary {
  int descriptor = -1;
  std::string path;
};
Temporary make_temporary(const std::string& path, unsigned mode);

// Returns whether `name` is a temporary of `file`; both are names without folders.
VOLTA_BACKEND_API bool is_temporary_of(std::string_view name, std::string_view file);

// Returns whether this temporary is a regular file that no process is writing.
VOLTA_BACKEND_API bool is_abandoned(const std::string& temporary);
// Removes the temporary if it is abandoned, and returns whether it did.
VOLTA_BACKEND_API bool remove_if_abandoned(const std::string& temporary);

// Returns the temporaries of the file at `path`, abandoned or not.
std::vector<std::string> temporaries_of(const std::string& path);
// Removes the abandoned temporaries of the file at `path`, and ignores failures.
VOLTA_BACKEND_API void remove_abandoned_temporaries(const std::string& path);

}  // namespace volta::platform
