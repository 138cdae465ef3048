// Indices that kernels check while they run: which runs of a plan are known to have met good ones
// only, and which values depend on runs that are not. The device clamps and goes on; whoever looks
// at such a value asks it then. All of this is under the device's lock.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "graph/segment.h"

namespace volta::graph {

// The runs of one plan that checks indices, counted from 1.
class IndexLog {
 public:
  // Some of these runs met a wrong index.
  struct Failure {
    std::uint64_t first, last;
    std::exception_ptr error;
    bool reported;        // somebody was told
    bool warned = false;  // the log was
  };

  explicit IndexLog(Executable& executable) : executable_(&executable) {}

  std::vector<Site> sites;  // the places of the latest run

  std::uint64_t begin_run() { return ++runs_; }
  std::uint64_t verified() const { return verified_; }
  bool open() const { return verified_ < runs_; }

  // Asks the device, which has finished the first `finished` runs at least. It tells that an index
  // was wrong but not in which run: every run not verified before may be the one.
  void verify(std::uint64_t finished);
  void verify_all() { verify(runs_); }
  // Asks the device, which may have finished none of them.
  void peek() { verify(verified_); }
  // The device cannot be asked: who looks at a value of the runs not verified is told why.
  void fail(const std::exception_ptr& error);
  // The plan goes; all of its runs are verified, or failed.
  void close() { executable_ = nullptr; }

  bool has_failures() const { return !failures_.empty(); }
  // Null if none of these runs failed (and nobody was told yet).
  Failure* failure(std::uint64_t first, std::uint64_t last, bool unreported);
  Failure* unreported() { return failure(1, runs_, true); }

 private:
  Executable* executable_;
  std::uint64_t runs_ = 0, verified_ = 0;
  std::vector<Failure> failures_;
};

// The runs whose checks a value depends on, where they are not known to be good.
struct Dependence {
  struct Runs {
    std::shared_ptr<IndexLog> log;
    std::uint64_t first = 0, last = 0;
    // Through state that was updated from its own former value, a parameter: it goes on with what
    // the clamped index gave, and throws only if nobody was told before.
    bool as_state = false;

    bool matters() const;
  };
  std::vector<Runs> runs;

  // Keeps one stretch of runs per plan and kind, so that a chain of steps has no longer list than a
  // single one.
  void add(Runs more);
};

// Throws IndexError if the value is known to depend on a wrong index.
void throw_known_index_error(const Node& node);
// The same for a value the device has finished, after asking it. A value that is good needs no
// further asking.
void verify_indices(Node& node);
void verify_indices(const Dependence& indices);
// A step reads values that may depend on a wrong index: the log is told of one that nobody was told
// of, as far as the device knows yet. It is not waited for.
void warn_of_wrong_indices(const Batch& batch) noexcept;

}  // namespace volta::graph
