// A plan prepared for the CPU: kernel launches and library calls in order.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/executor/block_program.h"
#include "backend/steps.h"

namespace volta::cpu {

// Provides executables with prepared programs.
class ProgramSource {
 public:
  virtual std::shared_ptr<const BlockProgram> compiled(
      const std::shared_ptr<const kernel::Program>& program) = 0;

 protected:
  ~ProgramSource() = default;
};

std::unique_ptr<Executable> make_executable(const plan::PlanSteps& steps, ProgramSource& source);

}  // namespace volta::cpu
