// Counts transfers by reason and place, and reports them.
#include "runtime/transfer/transfers.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "core/counting.h"
#include "core/text.h"
#include "graph/record/evaluation.h"
#include "graph/record/recording_state.h"
#include "platform/env.h"
#include "platform/fork.h"
#include "platform/thread_local.h"

namespace volta {
namespace {

VOLTA_INITIAL_EXEC thread_local const TransferReason* current_reason = nullptr;

// Direction, device type and index, reason, operation, file, line.
using Key = std::tuple<bool, DeviceType, int, std::string_view, std::string_view, std::string_view,
                       std::uint32_t>;
struct Sum {
  Device device;
  SourceLocation place;
  std::uint64_t count = 0, bytes = 0;
  profiling::Time time = 0;
};
struct Table {
  platform::ForkMutex mutex;
  std::map<Key, Sum> sums;
};
Table& table() {
  static auto* const table = new Table;  // usable until the process ends
  return *table;
}

std::string amount(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

// VOLTA_TRANSFERS: prints or writes the report of transfers when the process ends.
struct ReportAtExit {
  std::string where = platform::environment("VOLTA_TRANSFERS").value_or("");
  ~ReportAtExit() {
    if (where.empty() || where == "0") return;
    try {
      const TransferReport report = transfer_report();
      if (where == "1") {
        std::cerr << report;
        return;
      }
      std::ofstream file(where);
      file << "direction\tdevice\tbytes\tcount\tseconds\treason\tplace\n";
      for (const TransferRow& row : report.rows) {
        file << fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\n", row.to_device ? "to" : "from",
                            to_string(row.device), row.bytes, row.count, row.seconds, row.reason,
                            row.place);
      }
      if (!file.flush()) std::cerr << "volta: VOLTA_TRANSFERS: cannot write " << where << '\n';
    } catch (...) {  // the process is ending anyway
    }
  }
};
const ReportAtExit report_at_exit;

}  // namespace

TransferReason::TransferReason(const char* reason, SourceLocation place, const char* op)
    : reason_(reason),
      op_(op),
      place_(graph::reported_place(place)),
      outermost_(current_reason == nullptr) {
  if (outermost_) current_reason = this;
}

TransferReason::~TransferReason() {
  if (outermost_) current_reason = nullptr;
}

SourceLocation graph::transfer_place() {
  return current_reason == nullptr ? SourceLocation() : current_reason->place();
}

Transfer::Transfer(Direction direction, Device device, std::uint64_t bytes)
    : direction_(direction),
      device_(device),
      bytes_(bytes),
      exceptions_(std::uncaught_exceptions()),
      begin_(profiling::now()) {}

Transfer::~Transfer() {
  if (!device_.is_gpu() || bytes_ == 0 || std::uncaught_exceptions() > exceptions_) return;
  const profiling::Time time = profiling::now() - begin_;
  const bool to_device = direction_ == Direction::ToDevice;
  count(live_counters().transfers);
  count(to_device ? live_counters().bytes_to_device : live_counters().bytes_to_host, bytes_);
  const TransferReason* why = current_reason;
  // A line of the library's own source would mean nothing to users.
  const SourceLocation place =
      why == nullptr || graph::is_own(why->place_) ? SourceLocation() : why->place_;
  const Key key{to_device,
                device_.type(),
                device_.index(),
                why == nullptr ? "other" : why->reason_,
                why == nullptr ? "" : why->op_,
                place.file(),
                place.line()};
  try {
    const std::lock_guard guard(table().mutex);
    Sum& sum = table().sums.try_emplace(key, Sum{device_, place}).first->second;
    ++sum.count;
    sum.bytes += bytes_;
    sum.time += time;
  } catch (...) {  // the report then lacks this transfer
  }
}

std::uint64_t TransferReport::bytes_to_device() const {
  std::uint64_t bytes = 0;
  for (const TransferRow& row : rows) bytes += row.to_device ? row.bytes : 0;
  return bytes;
}

std::uint64_t TransferReport::bytes_to_host() const {
  std::uint64_t bytes = 0;
  for (const TransferRow& row : rows) bytes += row.to_device ? 0 : row.bytes;
  return bytes;
}

TransferReport transfer_report() {
  TransferReport report;
  {
    const std::lock_guard guard(table().mutex);
    for (const auto& [key, sum] : table().sums) {
      const auto& [to_device, type, index, reason, op, file, line] = key;
      report.rows.push_back(
          {.device = sum.device,
           .to_device = to_device,
           .reason = op.empty() ? std::string(reason) : fmt::format("{} in {}", reason, op),
           .place = file.empty() ? "" : place_text(sum.place),
           .count = sum.count,
           .bytes = sum.bytes,
           .seconds = 1e-9 * static_cast<double>(sum.time)});
    }
  }
  std::stable_sort(report.rows.begin(), report.rows.end(),
                   [](const TransferRow& a, const TransferRow& b) { return a.bytes > b.bytes; });
  return report;
}

void reset_transfers() {
  const std::lock_guard guard(table().mutex);
  table().sums.clear();
}

std::ostream& operator<<(std::ostream& out, const TransferReport& report) {
  if (report.rows.empty()) return out << "nothing was moved between the host and a device\n";
  out << fmt::format("{} to devices, {} to the host\n", amount(report.bytes_to_device()),
                     amount(report.bytes_to_host()));
  std::size_t widest = 0;
  for (const TransferRow& row : report.rows) widest = std::max(widest, row.reason.size());
  for (const TransferRow& row : report.rows) {
    const std::string device = to_string(row.device);
    out << fmt::format("  {:>10} {:>8}x {:>10.3f} ms  {:<18}  {:<{}}  {}\n", amount(row.bytes),
                       row.count, 1e3 * row.seconds,
                       row.to_device ? "host to " + device : device + " to host", row.reason,
                       widest, row.place);
  }
  return out;
}

}  // namespace volta
