// All environment variables that Volta uses. docs/environment.md describes them in detail; a test
// compares the two.
#pragma once

#include <string_view>
#include <vector>

namespace volta::cli {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view reader;   // "library", "cuda", "opencl", "command" or another library's name
  std::string_view meaning;  // in one line
};

const std::vector<EnvironmentVariable>& environment_variables();

}  // namespace volta::cli
