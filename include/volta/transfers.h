// Bytes moved between the host and devices: how many, why, and by which line of the program.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "volta/device.h"
#include "volta/export.h"
#include "volta/place.h"

namespace volta {

// All transfers of one direction, reason and place.
struct TransferRow {
  Device device = Device::cpu();  // the one that is not the host
  bool to_device = true;          // or from it
  std::string reason;             // the call: "to", "item", "from_vector", "mixed devices in add"
  std::string place;              // "train.cpp:42"; empty: not known
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;  // in which the calling thread was copying or waiting
};

struct VOLTA_API TransferReport {
  std::vector<TransferRow> rows;  // most bytes first

  std::uint64_t bytes_to_device() const;
  std::uint64_t bytes_to_host() const;
};

// Since the process started, or since reset_transfers. Arguments of kernels (a learning rate) are
// part of a launch and no transfers.
VOLTA_API TransferReport transfer_report();
VOLTA_API void reset_transfers();
VOLTA_API std::ostream& operator<<(std::ostream& out, const TransferReport& report);

// Why this thread moves what it moves while the object lives. Inside of another one nothing
// changes: who called first is the reason. `reason` and `op` are literals; "mixed devices" and
// "add" are told as "mixed devices in add".
class VOLTA_API TransferReason {
 public:
  explicit TransferReason(const char* reason, Place place = Place::here(), const char* op = "");
  ~TransferReason();
  TransferReason(const TransferReason&) = delete;
  TransferReason& operator=(const TransferReason&) = delete;
  Place place() const { return place_; }

 private:
  friend class Transfer;
  const char* const reason_;
  const char* const op_;
  const Place place_;
  const bool outermost_;
};

}  // namespace volta
