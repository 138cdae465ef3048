// VOLTA_CHECK=cpu: every step that a device runs is run by the CPU too, from the same values, and
// the first one whose results differ is named.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "core/registry.h"
#include "kernel/program.h"
#include "plan/plan_steps.h"

namespace volta::plan {

// Whether VOLTA_CHECK asks for it.
bool checks_steps();

// The steps of a plan, one by one, on a device and on the CPU.
class VOLTA_BACKEND_API CheckedSteps : public Executable {
 public:
  CheckedSteps(DeviceEntry& entry, const PlanSteps& steps);
  ~CheckedSteps() override;

  // Waits for the device. Throws BackendError naming the step that differs.
  void run(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
           std::span<const std::uint64_t> args) override;
  std::optional<kernel::ErrorRecord> take_error() override;

 private:
  struct Step;
  struct Host;
  void check_indices(const Step& step, std::size_t number);
  void compare(const Step& step, std::size_t number, Host& host, std::span<const Address> outputs,
               Address arena) const;

  DeviceEntry& entry_;
  const PlanSteps& plan_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::optional<kernel::ErrorRecord> error_;  // the first wrong index, with its site in the plan
};

}  // namespace volta::plan
