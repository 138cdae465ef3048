// Runs a random program on a device beside the reference and compares whatever is looked at.
#pragma once

#include <optional>
#include <string>

#include "random_graph/random_graph_program.h"
#include "volta/device.h"

namespace volta::random_graph {

struct Outcome {
  enum class Kind : std::uint8_t { passed, invalid, failed } kind = Kind::passed;
  std::string message;  // what differs, or why the program cannot be run
  int position = -1;    // the statement it cannot be run past
  bool failed() const { return kind == Kind::failed; }
};

// `wrong`: see Evaluator.
Outcome run(const Program& program, Device device, std::optional<Op> wrong = std::nullopt);
// The reference alone: passed, or invalid.
Outcome check(const Program& program);

}  // namespace volta::random_graph
