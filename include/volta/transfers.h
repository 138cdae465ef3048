// Bytes moved between the host and devices: how many, why, and by which line of the program.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "volta/device.h"
#include "volta/export.h"
#include "volta/source_location.h"

namespace volta {

// All transfers with the same direction, reason and source location.
struct TransferRow {
  Device device = Device::cpu();  // the device other than the host
  bool to_device = true;          // otherwise from the device
  std::string reason;             // the call: "to", "item", "from_vector", "mixed devices in add"
  std::string place;              // "train.cpp:42"; empty if unknown
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;  // time that the calling thread spent copying or waiting
};

struct VOLTA_API TransferReport {
  std::vector<TransferRow> rows;  // most bytes first

  std::uint64_t bytes_to_device() const;
  std::uint64_t bytes_to_host() const;
};

// Transfers since the process started or since reset_transfers. Kernel arguments (such as a
// learning rate) are part of a launch and not counted.
VOLTA_API TransferReport transfer_report();
VOLTA_API void reset_transfers();
VOLTA_API std::ostream& operator<<(std::ostream& out, const TransferReport& report);

// Names the reason for this thread's transfers while the object lives. Inside another
// TransferReason it has no effect, so the outermost call is the reason. `reason` and `op` are
// literals; "mixed devices" and "add" are reported as "mixed devices in add".
class VOLTA_API TransferReason {
 public:
  explicit TransferReason(const char* reason, SourceLocation place = SourceLocation::here(),
                          const char* op = "");
  ~TransferReason();
  TransferReason(const TransferReason&) = delete;
  TransferReason& operator=(const TransferReason&) = delete;
  SourceLocation place() const { return place_; }

 private:
  friend class Transfer;
  const char* const reason_;
  const char* const op_;
  const SourceLocation place_;
  const bool outermost_;
};

}  // namespace volta
