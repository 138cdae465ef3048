// The steps by which `volta doctor` checks a device, from finding the driver to a training step.
// They run in a separate process, because a driver may crash or hang it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "volta/device.h"

namespace volta::cli {

// The device to check: a family and a number.
struct DoctorTarget {
  DeviceType family = DeviceType::cuda;
  int index = 0;
};

struct DoctorStep {
  std::string name;   // "memory"
  std::string title;  // "Memory is allocated and copied"
  // Returns a description of the finding; throws one of Volta's errors if something is wrong.
  std::function<std::string(const DoctorTarget&)> check;
};

// The steps in order; each one needs those before it.
const std::vector<DoctorStep>& doctor_steps();

// Returns advice after a failed step with this error message.
std::string doctor_advice(const DoctorTarget& target, const std::string& step,
                          const std::string& message);
// Advice for a step that did not answer within `timeout` seconds, or that crashed its process.
std::string doctor_advice_when_late(const DoctorTarget& target, double timeout);
std::string doctor_advice_after_crash(const DoctorTarget& target);
// Returns a hint on speed or missing parts after a successful step; often empty.
std::string doctor_hint(const DoctorTarget& target, const std::string& step,
                        const std::string& detail);

}  // namespace volta::cli
