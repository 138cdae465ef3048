// VOLTA_CHECK=cpu: the CPU repeats every step of a device from the same values, and the first step
// whose results differ is reported.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/registry.h"
#include "backend/steps.h"
#include "kernel/program.h"

namespace volta::plan {

// Whether VOLTA_CHECK=cpu is set.
bool checks_steps();

// Runs the steps of a plan one by one on a device and on the CPU, and compares the results.
class VOLTA_BACKEND_API CheckedSteps : public Executable {
 public:
  CheckedSteps(DeviceEntry& entry, const PlanSteps& steps);
  ~CheckedSteps() override;

  // Waits for the device. Throws BackendError that names the first step whose results differ.
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
