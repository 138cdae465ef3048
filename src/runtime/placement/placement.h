// Where operations run that may run on more than one device (Placement in volta/execution.h).
//
// An operation is placed when it is recorded. What it needs from the other device is copied, and
// the copy is kept with the value (Node::mirror), so that using it again moves nothing; cheap
// chains over a value (views, casts) are recorded again on the other side instead of being copied.
// In the backward pass, which runs where the forward operations ran, a leaf whose gradient arrives
// on the device that has its copy moves there.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "graph/apply.h"
#include "graph/recording_state.h"
#include "volta/execution.h"
#include "volta/placement.h"

namespace volta::graph {

// What VOLTA_DEVICE asks of every program: read once, when the library is loaded.
extern const Placement default_placement;

// Whether this thread places operations; everything below is asked only then.
inline bool is_placing() {
  const Placing placing = recording_state.placing;
  return placing == Placing::yes ||
         (placing == Placing::by_default && default_placement != Placement::as_written);
}
// Whether the CPU may compute what this thread records for a device that has no memory for it: the
// library chose the device, and was not told to.
inline bool falls_back() {
  const Placing falls_back = recording_state.falls_back;
  return falls_back == Placing::yes ||
         (falls_back == Placing::by_default && default_placement == Placement::by_cost);
}
// While it lives, what this thread records runs where its operands are; without `applies` as
// before.
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
// The thread's options have changed.
void note_options(const ExecutionOptions& options);

// An operation that is about to be recorded.
struct Unplaced {
  OpId op;
  std::span<const Borrowed> inputs;
  std::span<const std::int64_t> attrs;
  std::span<const Shape> shapes;  // of the results
  std::span<const DType> dtypes;
  Place place;
};
// Its operands on the device chosen for it; empty where they are there already.
std::vector<Tensor> placed_operands(const Unplaced& operation);

// Where a tensor is made that no device is named for. `from_host`: of values that the host has.
Device placed_creation(const Shape& shape, DType dtype, bool from_host);

// The operand on another device, with its history. `adopts`: its leaf may move there for good.
Tensor moved(const Borrowed& operand, DeviceEntry& entry, Place place, bool adopts);
// Whether the record's rule runs where the gradient is, so that it comes to leaves there; others
// run where their forward did.
bool takes_gradients_of_any_device(const Tape& tape);
// A leaf's gradient has come on this device: the leaf moves there if a copy of its value is there.
// The caller has the leaf's GradientGuard.
bool adopt_mirror(Variable& leaf, DeviceEntry& entry);

// A new value for `target`, which stays where it is unless operations are placed.
inline Tensor to_assign(const Tensor& value, const Tensor& target, Place place) {
  return is_placing() ? value : value.to(target.device(), place);
}

// Where the operations of a stretch were placed, for computing it again: there the same choices
// hold, whatever has moved since.
class PlacementTrace {
 public:
  // This thread's operations are of the stretch.
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
  // Null where the stretch is recorded for the first time.
  DeviceEntry* next() { return next_ < chosen_.size() ? chosen_[next_++] : nullptr; }

 private:
  std::vector<DeviceEntry*> chosen_;
  std::size_t next_ = 0;
};

// Tests decide themselves: the device for an operation, or null to leave it to the policy.
using PlacementChooser = DeviceEntry* (*)(OpId op);
VOLTA_BACKEND_API void set_placement_chooser(PlacementChooser chooser);

// Figures with what is asked of them all the time.
struct Reckoning {
  explicit Reckoning(PlacementFigures figures);

  // Where time goes in a device that has work already: without the start and the wait.
  double marginal_gpu(double bytes, double multiplications, double functions) const;
  static double whole(const DeviceTimes& times, double bytes, double multiplications,
                      double functions);

  PlacementFigures figures;
  // Up to so many bytes and multiplications no download of values that the GPU has pays, and no
  // GPU begins before the CPU has finished.
  double stay_bytes, stay_multiplications;
  double small_bytes, small_multiplications, small_functions;
};
// Those in force; the object stays.
const Reckoning& reckoning(DeviceEntry& gpu);
// Counts the calls of set_placement_figures.
std::uint32_t figures_edition();

}  // namespace volta::graph
