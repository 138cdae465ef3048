// The steps by which `volta doctor` checks a device, from finding the driver to a training step.
// They run in a process of their own: a driver may crash it, or never answer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "volta/device.h"

namespace volta::cli {

// What is checked: a device of a family by its number.
struct DoctorTarget {
  DeviceType family = DeviceType::cuda;
  int index = 0;
};

struct DoctorStep {
  std::string name;   // "memory"
  std::string title;  // "Memory is allocated and copied"
  // Tells what was found; throws an error of Volta's where something is wrong.
  std::function<std::string(const DoctorTarget&)> check;
};

// In their order; each needs those before it.
const std::vector<DoctorStep>& doctor_steps();

// What to do after a step failed. `message` is what the step said.
std::string doctor_advice(const DoctorTarget& target, const std::string& step,
                          const std::string& message);
// What to do where a step gave no answer for so many seconds, or took its process with it.
std::string doctor_advice_when_late(const DoctorTarget& target, double timeout);
std::string doctor_advice_after_crash(const DoctorTarget& target);
// What would make things faster or find more, after a step that went well; often nothing.
std::string doctor_hint(const DoctorTarget& target, const std::string& step,
                        const std::string& detail);

}  // namespace volta::cli
