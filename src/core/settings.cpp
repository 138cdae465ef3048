// Process-wide settings, and the version.
#include <fmt/format.h>

#include "core/build_stamp.h"
#include "platform/parallel.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/version.h"

namespace volta {

void set_num_threads(int threads) {
  if (threads < 1) throw ArgumentError(fmt::format("set_num_threads: {} is less than 1", threads));
  platform::set_num_threads(threads);
}
int num_threads() { return platform::num_threads(); }

const char* version() { return kVersion; }

}  // namespace volta
