// Disables the run's collection of kernel programs (programs_test.cpp) while a test builds
// thousands of programs whose differences do not matter to a compiler.
#pragma once

namespace volta::testing {

class NoProgramsCollected {
 public:
  NoProgramsCollected();
  ~NoProgramsCollected();
  NoProgramsCollected(const NoProgramsCollected&) = delete;
  NoProgramsCollected& operator=(const NoProgramsCollected&) = delete;
};

}  // namespace volta::testing
