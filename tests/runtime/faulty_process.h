// Processes in which backends and requests for memory can fail.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/faulty_backend.h"
#include "support/child.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta::testing_faults {

// Runs on the device under test, in a process in which backends can fail.
template <class Body>
void with_faults(Body body) {
  const bool is_child = testing_child::is_child();
  testing_child::Environment environment = {{"VOLTA_TUNE", "off"}};
  if (is_child) {
    put_faulty_backends_in_place();
  } else {
    environment["VOLTA_TEST_DEVICE"] = to_string(test_device());
  }
  testing_child::in_child(environment, body);
}

// Requests for memory, for refuse_allocations (backend/pool_faults.h).
struct Requests {
  long made = 0;
  long from = 0;   // the first refused request; 0 for none
  long count = 0;  // number of refused requests
};
inline Requests& requests() {
  static Requests state;
  return state;
}
inline bool refuse(std::size_t) {
  Requests& r = requests();
  ++r.made;
  return r.from != 0 && r.made >= r.from && r.made < r.from + r.count;
}

}  // namespace volta::testing_faults
