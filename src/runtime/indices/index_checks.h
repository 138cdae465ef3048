// Index checks by kernels: records which runs of a plan have only met valid indices, and which
// values depend on runs that are not verified. A kernel clamps a wrong index and continues; the
// device is asked when such a value is read. Everything here is protected by the device's lock.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "graph/record/recorder.h"

namespace volta::graph {

// The runs of one plan that checks indices, numbered from 1.
class IndexLog {
 public:
  // At least one run of this range met a wrong index.
  struct Failure {
    std::uint64_t first, last;
    std::exception_ptr error;
    bool reported;        // the error was thrown to the program
    bool warned = false;  // a warning was logged
  };

  explicit IndexLog(Executable& executable) : executable_(&executable) {}

  std::vector<Site> sites;  // the checks of the latest run, for error messages

  std::uint64_t begin_run() { return ++runs_; }
  std::uint64_t verified() const { return verified_; }
  bool open() const { return verified_ < runs_; }

  // Asks the device for a wrong index after it has finished at least the first `finished` runs. The
  // device does not know which run met it, so every unverified run may be the one.
  void verify(std::uint64_t finished);
  void verify_all() { verify(runs_); }
  // Asks a device that may have finished none of the runs.
  void peek() { verify(verified_); }
  // Records that the device cannot be asked; reading a value of an unverified run then throws the
  // error.
  void fail(const std::exception_ptr& error);
  // To be called when the plan is destroyed, after all of its runs are verified or failed.
  void close() { executable_ = nullptr; }

  bool has_failures() const { return !failures_.empty(); }
  // The failure that overlaps the runs `first` to `last`, or null. `unreported` skips failures that
  // were thrown before.
  Failure* failure(std::uint64_t first, std::uint64_t last, bool unreported);
  Failure* unreported() { return failure(1, runs_, true); }

 private:
  Executable* executable_;
  std::uint64_t runs_ = 0, verified_ = 0;
  std::vector<Failure> failures_;
};

// The unverified or failed runs whose index checks a value depends on.
struct Dependence {
  struct Runs {
    std::shared_ptr<IndexLog> log;
    std::uint64_t first = 0, last = 0;
    // The value depends on these runs through state, such as a parameter that is updated from its
    // own former value. State keeps the result of the clamped index, and throws only if the error
    // was not reported before.
    bool as_state = false;

    bool matters() const;
  };
  std::vector<Runs> runs;

  // Merges runs of the same plan and kind into one range, so that the list does not grow with a
  // chain of steps.
  void add(Runs more);
};

// Throws IndexError if the value is known to depend on a wrong index.
void throw_known_index_error(const Node& node);
// Asks the device about the runs of a value that it has finished, and throws IndexError if one was
// wrong. A valid value is not checked again.
void verify_indices(Node& node);
void verify_indices(const Dependence& indices);
// Warns in the log about known wrong indices behind the leaves of a batch that were not reported
// yet. Does not wait for the device.
void warn_of_wrong_indices(const Batch& batch) noexcept;

}  // namespace volta::graph
