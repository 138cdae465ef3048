// A plan prepared for the CPU: launches and products in order.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/block_program.h"
#include "plan/plan_steps.h"

namespace volta::cpu {

// Where executables get their programs from.
class ProgramSource {
 public:
  virtual std::shared_ptr<const BlockProgram> compiled(const kernel::Program& program) = 0;

 protected:
  ~ProgramSource() = default;
};

std::unique_ptr<Executable> make_executable(const plan::PlanSteps& steps, ProgramSource& source);

}  // namespace volta::cpu
