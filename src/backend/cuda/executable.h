// Runs one plan: twice step by step, then as a captured graph replayed with one launch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/graph.h"
#include "backend/cuda/scalars.h"
#include "backend/cuda/steps.h"
#include "backend/cuda/variants.h"
#include "plan/plan_steps.h"

namespace volta::cuda {

class CudaExecutable final : public Executable {
 public:
  // The context is current.
  CudaExecutable(std::shared_ptr<Device> device, const plan::PlanSteps& steps);
  ~CudaExecutable() override;

  void run(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
           std::span<const std::uint64_t> args) override;
  std::optional<kernel::ErrorRecord> take_error() override;
  // Tells the profiler when the steps of replays ran that it was not told of; waits for them.
  void tell_replays();

 private:
  // The same graph with marks before, between and after its steps. Each takes the device two to
  // three microseconds, so only some replays are by this one.
  struct TimedGraph {
    Graph graph;
    std::vector<Mark> marks;
    std::uint64_t session = 0;  // the recording under way
    std::uint64_t replays = 0;  // in it
    bool untold = false;        // a replay by this graph
  };
  // A captured form of the plan.
  struct Variant {
    DeviceMemory tables;
    Graph graph;
    std::vector<std::size_t> mirrored;  // outputs
    std::uint64_t launches = 0, library_calls = 0;
    TimedGraph timed;  // made while a profiler records
  };

  void set_addresses(std::span<const Address> leaves, std::span<const Address> outputs,
                     Address arena);
  // Sends the argument block if it differs from the last one sent.
  void send_args(std::span<const std::uint64_t> args);
  Bound bound(const std::vector<std::uint64_t>& addresses) const;
  LaunchPlace place(const DeviceMemory& tables, CUstream stream) const;
  std::size_t output_index(std::size_t output) const { return leaf_bytes_.size() + output; }

  // Whether copies around the graph would take longer than issuing step by step, which it then does
  // from now on: inputs are large and lie somewhere else each time.
  bool is_costly_to_slot();
  // Whether one launch does it all.
  bool is_single() const;
  // Whether issuing takes no longer than replaying: a launch costs the host twice as much as a
  // graph of one, which matters only where the kernel is shorter than that.
  bool gains_nothing() const;
  void run_eagerly();
  // False when the plan cannot be replayed after all.
  bool capture(std::size_t index);
  Variant record();
  // What the variant launches, captured; with `marks` one before and one after each step.
  Graph capture_steps(const Variant& variant, std::span<const Mark> marks);
  void replay(Variant& variant);
  void launch_timed(Variant& variant, std::uint64_t session);
  // Captures the graph with marks, unless it is there; false where that fails.
  bool prepare_sample(Variant& variant);
  void tell(TimedGraph& timed);
  // The step after which an output has its value, given this run's addresses.
  std::size_t mirror_point(std::size_t output) const;
  // The addresses with fixed slots in place of volatile ones.
  std::vector<std::uint64_t> slotted() const;
  // Inputs into their slots, or outputs out of theirs.
  void copy_slots(bool in);
  // Tells the device's table which memory this run writes. `variant` is null for an eager run.
  void note_writes(const Variant* variant);
  void upload_tables(const DeviceMemory& tables, const std::vector<std::uint64_t>& rows) const;

  const std::shared_ptr<Device> device_;
  const Context& context_;
  const std::uint32_t lane_;  // it runs in, and its stream
  const CUstream stream_;
  const std::vector<std::uint64_t> leaf_bytes_, output_bytes_;
  const std::uint64_t arena_bytes_;
  const std::uint64_t bytes_;  // all of these
  const std::uint32_t plan_;   // its number
  PreparedSteps steps_;

  std::mutex mutex_;
  std::uint64_t runs_ = 0;
  bool replay_off_ = false;
  // An event ends each group of runs, and a group begins when the one before the last has ended.
  // Groups are of one run, of several where a run takes hardly longer than waiting for an event.
  const std::uint64_t group_runs_;
  std::array<Event, 2> finished_;         // of group n: event n % 2
  std::vector<std::uint64_t> addresses_;  // of this run: leaves, outputs, arena

  const std::size_t arg_words_;
  const std::size_t arg_block_count_;  // one more than the runs that may be in flight
  DeviceMemory args_;
  PinnedMemory arg_blocks_;
  std::vector<std::uint64_t> last_args_;
  std::size_t next_arg_block_ = 0;

  PinnedMemory error_;  // a kernel::ErrorRecord, where a kernel checks indices

  DeviceMemory eager_tables_;
  std::vector<std::uint64_t> eager_rows_;

  VariantTable table_;
  DeviceMemory slots_;
  CUfunction slot_copier_ = nullptr;  // there with the slots
  std::vector<Variant> variants_;
  std::vector<std::shared_ptr<ScalarOutput>> scalars_;  // per output; null when it is no scalar
};

}  // namespace volta::cuda
