// Temporary files beside the file that they are to replace: "<file>.<16 random hex digits>.tmp".
// Their writer holds a lock (flock) on them, which the kernel releases when the process ends in
// whatever way. A temporary whose lock can be taken was therefore left by a process that was
// killed, and may be removed; one that a living process writes never is.
#pragma once

#include <string>
#include <string_view>

#include "volta/export.h"

namespace volta::platform {

// A new temporary for the file at `path`, open for writing and locked. The descriptor is negative,
// and errno says why, where none can be made.
struct Temporary {
  int descriptor = -1;
  std::string path;
};
Temporary make_temporary(const std::string& path);

// Whether a file of this name is a temporary of the file of the other name; both without folders.
VOLTA_BACKEND_API bool is_temporary_of(std::string_view name, std::string_view file);

// Whether this temporary is a regular file that nobody writes.
VOLTA_BACKEND_API bool is_abandoned(const std::string& temporary);
// Removes it if it is, and tells whether that was done.
VOLTA_BACKEND_API bool remove_if_abandoned(const std::string& temporary);

// Removes the abandoned temporaries of the file at `path`. What cannot be removed stays.
VOLTA_BACKEND_API void remove_abandoned_temporaries(const std::string& path);

}  // namespace volta::platform
