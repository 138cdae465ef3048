// Runs a random program on a device and on the reference, and compares all values that are read.
#pragma once

#include <optional>
#include <string>

#include "random_graph/random_graph_program.h"
#include "volta/device.h"

namespace volta::random_graph {

struct Outcome {
  enum class Kind : std::uint8_t { passed, invalid, failed } kind = Kind::passed;
  std::string message;  // the difference, or why the program cannot be run
  int position = -1;    // the first statement that cannot be run
  bool failed() const { return kind == Kind::failed; }
};

// Evaluator explains `wrong`.
Outcome run(const Program& program, Device device, std::optional<Op> wrong = std::nullopt);
// Runs the reference alone; the outcome is passed or invalid.
Outcome check(const Program& program);

}  // namespace volta::random_graph
