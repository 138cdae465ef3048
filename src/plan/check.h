// VOLTA_CHECK=cpu: every step that a device runs is run by the CPU too, from the same values, and
// the first one whose results differ is named.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/registry.h"
#include "plan/plan.h"

namespace volta::plan {

// Whether VOLTA_CHECK asks for it.
bool checks_steps();

// The steps of a plan, one by one, on a device and on the CPU.
class VOLTA_BACKEND_API CheckedSteps {
 public:
  CheckedSteps(DeviceEntry& entry, const PlanSteps& steps);
  ~CheckedSteps();

  // Runs the plan on the device, with its results as Executable::run leaves them. Throws
  // BackendError naming the step that differs.
  void run(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
           std::span<const std::uint64_t> args);

 private:
  struct Step;
  struct Host;
  void compare(const Step& step, std::size_t number, Host& host, std::span<const Address> outputs,
               Address arena) const;

  DeviceEntry& entry_;
  const PlanSteps& plan_;
  std::vector<std::unique_ptr<Step>> steps_;
};

}  // namespace volta::plan
