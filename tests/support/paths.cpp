#include "support/paths.h"

namespace volta::paths {

std::string golden_dir() { return source_tree() + "/tests/golden"; }
std::string source_tree() { return VOLTA_SOURCE_TREE; }
std::string library_dir() { return VOLTA_TEST_LIB_DIR; }

}  // namespace volta::paths
