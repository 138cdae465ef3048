// Tests of the tuner that need several processes.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "support/child.h"
#include "volta/counters.h"

namespace volta::tuner_testing {

inline std::uint64_t timings() { return counters().timings; }

inline bool is_process(const char* name) {
  const char* own = std::getenv("VOLTA_TEST_PROCESS");
  return own != nullptr && std::string(own) == name;
}
template <class Body>
void in_process(const char* name, testing_child::Environment changes, Body body) {
  changes["VOLTA_TEST_PROCESS"] = name;
  if (!testing_child::is_child() || is_process(name)) testing_child::in_child(changes, body);
}

}  // namespace volta::tuner_testing
