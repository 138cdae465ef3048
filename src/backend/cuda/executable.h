// Runs one plan: step by step at first, then as a captured graph that is replayed with one launch.
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
#include "backend/steps.h"

namespace volta::cuda {

class CudaExecutable final : public Executable {
 public:
  // The context must be current.
  CudaExecutable(std::shared_ptr<Device> device, const plan::PlanSteps& steps);
  ~CudaExecutable() override;

  void run(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
           std::span<const std::uint64_t> args) override;
  std::optional<kernel::ErrorRecord> take_error() override;
  // Reports to the profiler the step times of replays that were not reported yet; waits for these
  // replays.
  void tell_replays();

 private:
  // Tables of horizontal kernels.
  using Tables = SmallMemory<DeviceMemory>::Block;
  // A copy of the graph with a timing event before, between and after its steps. Each event takes
  // the device two to three microseconds, so only some replays use this graph.
  struct TimedGraph {
    Graph graph;
    std::vector<TimelineEvent> events;
    std::uint64_t session = 0;  // the profiler's current recording
    std::uint64_t replays = 0;  // the number of replays in it
    bool untold = false;        // a replay of this graph has not been reported yet
  };
  // A plan captured for one set of addresses.
  struct Variant {
    Tables tables;
    Graph graph;
    std::vector<std::size_t> read_back;  // outputs that are also sent to the host
    std::uint64_t launches = 0, library_calls = 0;
    TimedGraph timed;  // captured only while a profiler records
  };

  void set_addresses(std::span<const Address> leaves, std::span<const Address> outputs,
                     Address arena);
  // Sends the argument block if it differs from the last one sent.
  void send_args(std::span<const std::uint64_t> args);
  Bound bound(const std::vector<std::uint64_t>& addresses) const;
  LaunchPlace place(const Tables& tables, CUstream stream) const;
  std::size_t output_index(std::size_t output) const { return leaf_bytes_.size() + output; }

  // Whether copying into and out of slots would take longer than issuing the steps one by one,
  // because inputs are large and move at each run. If so, turns replays off for good.
  bool is_costly_to_slot();
  // Whether the whole plan is a single launch.
  bool is_single() const;
  // Whether issuing is as fast as replaying. A launch costs the host twice as much as a graph of
  // one kernel, which matters only if the kernel itself is shorter than that.
  bool gains_nothing() const;
  bool is_too_long() const;
  void run_eagerly();
  // Returns false if the plan cannot be replayed after all.
  bool capture(std::size_t index);
  Variant record();
  // Captures the variant's launches; with `events`, a timing event before the first step and after
  // each.
  Graph capture_steps(const Variant& variant, std::span<const TimelineEvent> events);
  void replay(Variant& variant);
  void launch_timed(Variant& variant, std::uint64_t session);
  // Captures the timed graph unless it exists; returns false if that fails.
  bool prepare_sample(Variant& variant);
  void tell(TimedGraph& timed);
  // The step after which an output has its final value, given this run's addresses.
  std::size_t readback_step(std::size_t output) const;
  // The addresses, with the fixed slots in place of volatile buffers.
  std::vector<std::uint64_t> slotted() const;
  // Copies inputs into their slots, or outputs out of theirs.
  void copy_slots(bool in);
  // Records in the device's scalar table which memory this run writes. `variant` is null for an
  // eager run.
  void note_writes(const Variant* variant);
  // Sets `held`, after a capture or when captures were dropped.
  void measure();
  void upload_tables(const Tables& tables, const std::vector<std::uint64_t>& rows) const;

  const std::shared_ptr<Device> device_;
  const Context& context_;
  const std::uint32_t stream_number_;  // the compute stream it runs in
  const CUstream stream_;
  const std::vector<std::uint64_t> leaf_bytes_, output_bytes_;
  const std::uint64_t arena_bytes_;
  const std::uint64_t bytes_;  // the bytes of leaves, outputs and arena together
  const std::uint32_t plan_;   // the plan's number
  PreparedSteps steps_;

  std::mutex mutex_;
  std::uint64_t runs_ = 0;
  bool replay_off_ = false;
  // Runs are counted in groups, each ended by an event; a group starts only when the group before
  // the previous one has ended. A group has one run, or several if a run takes hardly longer than
  // waiting for an event.
  const std::uint64_t group_runs_;
  std::array<Event, 2> finished_;         // group n uses event n % 2
  std::vector<std::uint64_t> addresses_;  // leaves, outputs and arena of this run

  const std::size_t arg_words_;
  const std::size_t arg_block_count_;  // one more than the runs in flight
  SmallMemory<DeviceMemory>::Block args_;
  SmallMemory<PinnedMemory>::Block arg_blocks_;
  std::vector<std::uint64_t> last_args_;
  std::size_t next_arg_block_ = 0;

  SmallMemory<PinnedMemory>::Block error_;  // a kernel::ErrorRecord if some kernel checks indices

  Tables eager_tables_;
  std::vector<std::uint64_t> eager_rows_;

  VariantTable table_;
  DeviceMemory slots_;
  CUfunction slot_copier_ = nullptr;  // loaded together with the slots
  std::vector<Variant> variants_;
  std::vector<std::shared_ptr<ScalarOutput>> scalars_;  // per output; null if it is not a scalar
};

}  // namespace volta::cuda
