// The locations of the tests' data. Only paths.cpp is compiled with these paths, so that the
// objects of the other tests are equal in every clone.
#pragma once

#include <string>

namespace volta::paths {

std::string golden_dir();   // tests/golden
std::string source_tree();  // the project's root
std::string library_dir();  // of libvolta and its backends

}  // namespace volta::paths
