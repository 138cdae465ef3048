// Drafts: what planning makes of the nodes of a view, before sizes are numbers and temporaries have
// places in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backend/registry.h"
#include "backend/steps.h"
#include "plan/arena.h"
#include "plan/lower/batch_sizes.h"
#include "plan/lower/batch_view.h"
#include "plan/plan.h"

namespace volta::plan {

// A plan whose numbers are extents. Leaves are those of the view, and results name nodes by their
// positions in it.
struct Draft {
  // A buffer of a step. References to temporaries name them by `index`; `own`: those of the body of
  // a loop. In the body of a loop, `start` and `stride` are the BufferRef's.
  struct Place {
    BufferRef buffer;
    bool own = false;
    Extent start = 0, stride = 0;
  };
  struct Segment {  // of a kernel
    std::vector<Extent> ints;
    std::vector<Place> buffers;
    std::uint32_t first_arg = 0;
    Extent largest = 0, bytes_read = 0, bytes_written = 0, operations = 0;
  };
  struct Buffer {  // that a call reads or writes
    Place place;
    DType dtype;
    Extent elements;
  };
  struct Looped;
  struct Draw {
    Step step;
    std::vector<Segment> segments = {};  // none: a call
    bool overwrites = false;             // a kernel that writes into the buffer of a leaf
    bool aligned = true;                 // whether all buffers begin as whole buffers do
    std::vector<Extent> sizes = {};
    std::vector<Buffer> reads = {}, writes = {};
    int scratch = -1;  // the temporary that is its scratch memory
    std::shared_ptr<const Looped> loop = {};
  };
  struct LoopPart {
    Extent first = 0, count = 0;
    std::vector<Draw> steps = {};
    std::vector<Temporary> temporaries = {};
  };
  // The steps of a loop. Its scratch memory has the carried values, then the temporaries.
  struct Looped {
    std::vector<LoopPart> parts = {};
    Extent carried_bytes = 0;
  };
  std::vector<Draw> steps;
  std::vector<Temporary> temporaries;
  std::vector<Extent> leaf_bytes, output_bytes;
  std::vector<Result> results;
  std::vector<int> donor;
  std::vector<std::uint32_t> arg_map;
  // Per result: whether it is images whose channels lie last in the buffer. Only for values that
  // nobody holds.
  std::vector<bool> channels_last;
  std::vector<bool> checked;  // per result; of a whole batch

  template <class Visit>
  void visit_extents(const Visit& visit) const;
  // An estimate of its memory.
  std::size_t bytes() const;

 private:
  template <class Visit>
  static void visit_steps(const std::vector<Draw>& steps, const Visit& visit);
};

template <class Visit>
void Draft::visit_steps(const std::vector<Draw>& steps, const Visit& visit) {
  const auto visit_place = [&](const Place& place) {
    visit(place.start);
    visit(place.stride);
  };
  for (const Draw& step : steps) {
    for (const Segment& segment : step.segments) {
      for (const Extent extent : segment.ints) visit(extent);
      for (const Extent extent :
           {segment.largest, segment.bytes_read, segment.bytes_written, segment.operations}) {
        visit(extent);
      }
      for (const Place& place : segment.buffers) visit_place(place);
    }
    for (const Extent extent : step.sizes) visit(extent);
    for (const auto* list : {&step.reads, &step.writes}) {
      for (const Buffer& buffer : *list) {
        visit(buffer.elements);
        visit_place(buffer.place);
      }
    }
    if (step.loop == nullptr) continue;
    visit(step.loop->carried_bytes);
    for (const LoopPart& part : step.loop->parts) {
      visit(part.first);
      visit(part.count);
      visit_steps(part.steps, visit);
      for (const Temporary& temporary : part.temporaries) visit(temporary.bytes);
    }
  }
}

template <class Visit>
void Draft::visit_extents(const Visit& visit) const {
  visit_steps(steps, visit);
  for (const Temporary& temporary : temporaries) visit(temporary.bytes);
  for (const Extent extent : leaf_bytes) visit(extent);
  for (const Extent extent : output_bytes) visit(extent);
}

// A node whose value was assigned to the variable of a leaf.
struct Successor {
  std::uint32_t node = 0, leaf = 0;  // in the view
};

// What is to be planned.
struct DraftTask {
  const BatchView& view;
  const BatchSizes& sizes;
  bool has_open_sizes = false;
  const std::vector<bool>& donatable;  // per leaf of the view: whether it may be overwritten
  std::vector<Successor> successors = {};
  const graph::Node* only = nullptr;  // if any, the only node whose value is a result
};

// Where the value of an output comes from, for explain().
struct OutputOrigin {
  int step = 0;              // the first one that writes it, counted from 1
  int donor = -1;            // the leaf whose buffer it takes over
  int refused = -1;          // or would have liked to take over
  const char* refusal = "";  // and why it does not
};

// Lowers the view, groups its values and generates kernels. `id` is that of the plan, for dumps.
Draft draft_plan(const DraftTask& task, const DeviceEntry& entry, GroupingCache& groupings,
                 std::uint32_t id, std::vector<OutputOrigin>* origins = nullptr);

// A number that no other plan of the process has.
std::uint32_t next_plan_id();

// Per result of a batch: whether it depends on an index that the batch checks.
std::vector<bool> checked_results(const graph::Batch& batch, const std::vector<Result>& results);

// Makes a plan: computes the numbers of a draft, which `number` tells, and places its temporaries.
// At other sizes than those of planning (`resized`), null if the plan is not for them.
std::unique_ptr<Plan> instantiate(const Draft& draft, const DeviceEntry& entry, bool resized,
                                  std::uint32_t id,
                                  const std::function<std::int64_t(Extent)>& number);

}  // namespace volta::plan
