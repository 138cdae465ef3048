// The interface of automatic placement (Placement in volta/execution.h) that recording uses: which
// device runs an operation that could run on several. src/runtime/placement makes the decisions and
// moves the values.
//
// An operation is placed when it is recorded. Values that it needs from the other device are
// copied, and the copy stays with the value (Node::replica), so that the next use there copies
// nothing. Cheap chains of views and casts are recorded again on the other device instead of being
// copied. The backward pass runs where the forward operations ran. If a leaf's gradient arrives on
// the device that has a replica of the leaf, the leaf moves there.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/registry.h"
#include "graph/record/apply.h"
#include "graph/record/recording_state.h"
#include "volta/execution.h"

namespace volta::graph {

// The placement that VOLTA_DEVICE sets, read once when the library is loaded.
extern const Placement default_placement;

// Whether this thread places operations.
inline bool is_placing() {
  const Placing placing = recording_state.placing;
  return placing == Placing::yes ||
         (placing == Placing::by_default && default_placement != Placement::as_written);
}
// Whether the CPU may compute operations of this thread for which the device has too little memory.
// It may if the library, not the user, chose the device.
inline bool falls_back() {
  const Placing falls_back = recording_state.falls_back;
  return falls_back == Placing::yes ||
         (falls_back == Placing::by_default && default_placement == Placement::by_cost);
}
// While alive, operations of this thread run where their operands are. Has no effect if `applies`
// is false.
class AsWritten {
 public:
  explicit AsWritten(bool applies = true) : before_(recording_state.placing) {
    if (applies) recording_state.placing = Placing::no;
  }
  ~AsWritten() { recording_state.placing = before_; }
  AsWritten(const AsWritten&) = delete;
  AsWritten& operator=(const AsWritten&) = delete;

 private:
  const Placing before_;
};
// Called when the thread's options have changed.
void note_options(const ExecutionOptions& options);

// An operation that is about to be recorded.
struct Unplaced {
  OpId op;
  std::span<const Borrowed> inputs;
  std::span<const std::int64_t> attrs;
  std::span<const Shape> shapes;  // of the results
  std::span<const DType> dtypes;
  SourceLocation place;
};
// The operands on the device chosen for the operation; empty if they are already there.
std::vector<Tensor> placed_operands(const Unplaced& operation);

// The device of a new tensor for which the caller names none. `from_host`: its values are on the
// host.
Device placed_creation(const Shape& shape, DType dtype, bool from_host);

// The operand on another device, with its history. `adopts`: the operand's leaf may move there
// permanently.
Tensor moved(const Borrowed& operand, DeviceEntry& entry, SourceLocation place, bool adopts);
// Whether the gradient rule of the record runs on the gradient's device, so that leaves receive
// gradients there. Other rules run on the device of their forward operation.
bool takes_gradients_of_any_device(const Tape& tape);
// Moves a leaf to the device of its gradient if that device has a replica of its value. The caller
// has the leaf's GradientGuard.
bool adopt_replica(Variable& leaf, DeviceEntry& entry);

// The value to assign to `target`. Unless operations are placed, it is moved to the target's
// device.
inline Tensor to_assign(const Tensor& value, const Tensor& target, SourceLocation place) {
  return is_placing() ? value : value.to(target.device(), place);
}

// The devices chosen for the operations of a section of the program. When the section is
// recomputed, the same choices are made again, even if values have moved since.
class PlacementTrace {
 public:
  // While alive, this thread's operations belong to the section.
  class Scope {
   public:
    explicit Scope(PlacementTrace& trace);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PlacementTrace* const outer_;
  };
  void begin_again() { next_ = 0; }
  void add(DeviceEntry& entry) {
    chosen_.push_back(&entry);
    next_ = chosen_.size();
  }
  // Null while the section is recorded for the first time.
  DeviceEntry* next() { return next_ < chosen_.size() ? chosen_[next_++] : nullptr; }

 private:
  std::vector<DeviceEntry*> chosen_;
  std::size_t next_ = 0;
};

}  // namespace volta::graph
