// Host blocks, which are reused when their event has passed.
#include "backend/opencl/host_blocks.h"

#include <cstring>
#include <utility>

namespace volta::opencl {
namespace {

// The most bytes in flight at a time.
constexpr std::size_t kInFlightLimit = std::size_t{32} << 20;

bool finished(cl_event event) {
  cl_int status = CL_QUEUED;
  check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr),
        "clGetEventInfo");
  if (status < 0) check_wait(status, "a copy to the device");
  return status == CL_COMPLETE;
}

}  // namespace

HostBlocks::Block HostBlocks::take(const void* source, std::size_t bytes) {
  Block block;
  while (!in_flight_.empty()) {
    const bool full = in_flight_bytes_ + bytes > kInFlightLimit;
    cl_event oldest = in_flight_.front().event.get();
    if (full) {
      check_wait(clWaitForEvents(1, &oldest), "clWaitForEvents");
    } else if (!finished(oldest)) {
      break;
    }
    block = std::move(in_flight_.front());
    in_flight_.pop_front();
    in_flight_bytes_ -= block.bytes.size();
  }
  block.bytes.resize(bytes);
  block.event = {};
  std::memcpy(block.bytes.data(), source, bytes);
  return block;
}

void HostBlocks::keep(Block block) {
  in_flight_bytes_ += block.bytes.size();
  in_flight_.push_back(std::move(block));
}

}  // namespace volta::opencl
