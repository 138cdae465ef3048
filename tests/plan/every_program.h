// The run's collection of kernel programs (programs_test.cpp), set aside while a test builds
// thousands that differ in nothing that matters to a compiler.
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
