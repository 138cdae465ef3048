// What planning makes of a batch before it is bound to numbers: steps whose sizes are extents and
// whose temporaries have no places yet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/steps.h"
#include "plan/arena.h"
#include "plan/plan.h"

namespace volta::plan {

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
  std::vector<bool> checked;

  template <class Visit>
  void visit_extents(const Visit& visit) const;
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

struct Account;
class GroupingCache;

// What a batch is drafted for.
struct DraftContext {
  const DeviceEntry& entry;
  GroupingCache& groupings;
  bool open;         // some sizes are open
  std::uint32_t id;  // of the plan, for dumps

  bool massively_parallel() const;
};

Draft draft_plan(const graph::Batch& batch, const BatchSizes& sizes,
                 const std::vector<bool>& donatable, const DraftContext& context,
                 const graph::Node* only, Account* account);

}  // namespace volta::plan
