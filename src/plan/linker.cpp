// Linking: the drafts of stretches one after the other, their buffers renamed to those of the
// batch.
#include "plan/linker.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "core/counting.h"
#include "core/heap_bytes.h"
#include "kernel/observer.h"
#include "plan/explain.h"
#include "plan/group/structure.h"
#include "plan/steps_builder.h"
#include "plan/stretches.h"

namespace volta::plan {

using graph::Batch;
using graph::Node;
using kernel::InstrKind;

namespace {

// A buffer that a stretch writes for others, or for somebody who holds its value. Until all are
// known, references to it have the kind Output and its number.
struct Made {
  Extent bytes;
  bool is_held = false;
  int donor = -1;                     // the leaf of the batch whose buffer it takes over
  std::uint32_t number = 0;           // of the output or temporary that it becomes
  std::size_t first = ~0U, last = 0;  // the steps that use it
};

// A stretch whose draft is known, and what its buffers are.
struct Part {
  const Stretch* stretch = nullptr;
  std::shared_ptr<const StretchDraft> draft;
  std::vector<BufferRef> leaves;    // Leaf: of the batch; Output: a Made
  std::vector<bool> channels_last;  // per leaf: whether it is images that lie so
  std::uint32_t first_output = 0;   // its outputs are Mades from this number on
  std::uint32_t first_temporary = 0;
};

class Linker {
 public:
  Linker(const Batch& batch, const Stretches& stretches, const std::vector<bool>& donatable,
         const DeviceEntry& entry, GroupingCache& groupings, StretchCache& cache)
      : batch_(batch),
        donatable_(donatable),
        entry_(entry),
        groupings_(groupings),
        cache_(cache),
        stretches_(stretches),
        leaf_uses_(batch.leaves.size()),
        leaf_of_(stretches_.node_count(), Batch::kNoLeaf),
        places_(stretches_.node_count()),
        channels_last_(stretches_.node_count(), false) {
    for (const graph::JournalEntry& assigned : batch.journal) {
      if (assigned.leaf == Batch::kNoLeaf) continue;
      leaf_of_[assigned.assigned->index] = assigned.leaf;
      leaf_uses_[assigned.leaf].successor = assigned.assigned->index;
    }
  }

  Draft run() {
    for (const graph::Leaf& leaf : batch_.leaves)
      plan_.leaf_bytes.push_back(leaf.node->shape.numel() *
                                 static_cast<std::int64_t>(size_of(leaf.node->dtype)));
    const std::vector<Stretch>& all = stretches_.all();
    std::vector<Part> parts;
    for (std::size_t s = 0; s < all.size();) {
      std::size_t end = s + 1;
      while (all[s].list != Stretch::kNoList && end < all.size() && all[end].list == all[s].list)
        ++end;
      parts.clear();
      for (; s < end; ++s) parts.push_back(resolve(s));
      append(parts);
    }
    settle();
    return std::move(plan_);
  }

 private:
  // What is known of a leaf of the batch while stretches are linked in order.
  struct LeafUse {
    std::size_t last_reader = 0;                 // the last stretch that reads it or a view of it
    bool is_returned = false;                    // a result lies in it
    std::uint32_t last_list = Stretch::kNoList;  // the list of the latest one
    std::uint32_t successor = Stretch::kNoNode;  // the new value of its variable
  };

  Part resolve(std::size_t number);
  std::shared_ptr<const StretchDraft> draft_of(const Part& part, std::size_t number);
  std::shared_ptr<const StretchDraft> planned(const Part& part, std::vector<Wanted> wanted,
                                              std::vector<Successor> successors,
                                              const std::vector<bool>& donatable);
  std::vector<bool> donatable_leaves(const Stretch& stretch, const Part& part,
                                     std::size_t number) const;
  void take_results(const Part& part);
  void append(std::span<Part> parts);
  void append_side_by_side(std::span<const Part> parts);
  void append_step(const Part& part, std::size_t step);
  Draft::Segment renamed(const Part& part, const kernel::Program& program,
                         const Draft::Segment& segment);
  Draft::Draw renamed(const Part& part, const Draft::Draw& from);
  static void rename(const Part& part, Draft::Place& place);
  void settle();
  template <class Visit>
  void visit_buffers(const Visit& visit);

  const Batch& batch_;
  const std::vector<bool>& donatable_;
  const DeviceEntry& entry_;
  GroupingCache& groupings_;
  StretchCache& cache_;
  const Stretches& stretches_;
  std::vector<LeafUse> leaf_uses_;
  std::vector<std::uint32_t> leaf_of_;  // per node: the leaf whose variable it was assigned to
  std::vector<BufferRef> places_;       // per node that other stretches read: where its value lies
  std::vector<bool> channels_last_;     // and whether it is images whose channels lie last
  std::vector<Made> made_;
  std::vector<std::pair<std::uint32_t, BufferRef>> results_;  // a node that is held, and its place
  Draft plan_;
};

bool computed_in(const Stretch& stretch, std::uint32_t node) {
  return std::find(stretch.computes.begin(), stretch.computes.end(), node) !=
         stretch.computes.end();
}

// Which leaves of a stretch it may overwrite: nobody may read the old value afterwards, also not
// through a view that an earlier stretch has made.
std::vector<bool> Linker::donatable_leaves(const Stretch& stretch, const Part& part,
                                           std::size_t number) const {
  std::vector<bool> donatable(part.leaves.size(), false);
  std::map<std::uint32_t, int> names;  // how many leaves of the stretch one of the batch is
  for (const BufferRef& leaf : part.leaves) {
    if (leaf.kind == BufferRef::Kind::Leaf) ++names[leaf.index];
  }
  for (std::size_t k = 0; k < donatable.size(); ++k) {
    const BufferRef& leaf = part.leaves[k];
    if (leaf.kind != BufferRef::Kind::Leaf || !donatable_[leaf.index] || names[leaf.index] > 1)
      continue;
    const LeafUse& use = leaf_uses_[leaf.index];
    if (use.is_returned || use.last_reader > number) continue;
    // Elements of a list may be computed at once.
    if (stretch.list != Stretch::kNoList && use.last_list == stretch.list) continue;
    // Its memory is meant for the variable's new value.
    if (use.successor != Stretch::kNoNode && !computed_in(stretch, use.successor)) continue;
    donatable[k] = true;
  }
  return donatable;
}

Part Linker::resolve(std::size_t number) {
  const Stretch& stretch = stretches_.all()[number];
  Part part{.stretch = &stretch, .draft = nullptr, .leaves = {}, .channels_last = {}};
  part.leaves.reserve(stretch.leaves.size());
  for (const ValueRef leaf : stretch.leaves) {
    const BufferRef place =
        leaf.is_leaf ? BufferRef{BufferRef::Kind::Leaf, leaf.number, 0} : places_[leaf.number];
    if (place.kind == BufferRef::Kind::Leaf) {
      LeafUse& use = leaf_uses_[place.index];
      use.last_reader = std::max(use.last_reader, stretches_.last_reader(leaf));
    }
    part.leaves.push_back(place);
    part.channels_last.push_back(!leaf.is_leaf && channels_last_[leaf.number]);
  }
  part.draft = draft_of(part, number);
  for (const BufferRef& leaf : part.leaves) {
    if (leaf.kind == BufferRef::Kind::Leaf) leaf_uses_[leaf.index].last_list = stretch.list;
  }
  part.first_output = static_cast<std::uint32_t>(made_.size());
  take_results(part);
  return part;
}

std::shared_ptr<const StretchDraft> Linker::draft_of(const Part& part, std::size_t number) {
  const Stretch& stretch = *part.stretch;
  graph::Hash key = stretch.hash;
  key.mix(stretch.list != Stretch::kNoList ? 1 : 0);  // kernels of elements know how they merge
  std::vector<Wanted> wanted(stretch.nodes.size(), Wanted::No);
  std::vector<Successor> successors;
  for (std::uint32_t n = 0; n < stretch.nodes.size(); ++n) {
    const std::uint32_t node = stretch.computes[n];
    if (node == Stretch::kNoNode) continue;
    wanted[n] = stretches_.node(node).live                       ? Wanted::Held
                : stretches_.last_reader({false, node}) > number ? Wanted::Later
                                                                 : Wanted::No;
    key.mix(static_cast<std::uint64_t>(wanted[n]));
    if (leaf_of_[node] == Batch::kNoLeaf) continue;
    for (std::uint32_t k = 0; k < part.leaves.size(); ++k) {
      if (part.leaves[k].kind != BufferRef::Kind::Leaf || part.leaves[k].index != leaf_of_[node])
        continue;
      successors.push_back({n, k});
      key.mix(std::uint64_t{n} << 32 | k);
    }
  }
  const std::vector<bool> donatable = donatable_leaves(stretch, part, number);
  for (std::size_t k = 0; k < donatable.size(); ++k)
    key.mix(1 | (donatable[k] ? 2 : 0) | (part.channels_last[k] ? 4 : 0));
  if (const auto* known = cache_.find(key)) return *known;
  auto made = planned(part, std::move(wanted), std::move(successors), donatable);
  cache_.insert(key, made, made->bytes());
  return made;
}

std::shared_ptr<const StretchDraft> Linker::planned(const Part& part, std::vector<Wanted> wanted,
                                                    std::vector<Successor> successors,
                                                    const std::vector<bool>& donatable) {
  const Stretch& stretch = *part.stretch;
  std::vector<Node*> leaves;
  for (const ValueRef leaf : stretch.leaves) leaves.push_back(&stretches_.node(leaf));
  const BatchView view(stretch.nodes, leaves, std::move(wanted), part.channels_last);
  const BatchSizes sizes(view);
  auto made = std::make_shared<StretchDraft>();
  made->draft = draft_plan(
      {.view = view, .sizes = sizes, .donatable = donatable, .successors = std::move(successors)},
      entry_, groupings_, next_plan_id());
  for (const Draft::Draw& draw : made->draft.steps) {
    std::string& text = made->merging_texts.emplace_back();
    if (stretch.list == Stretch::kNoList || draw.segments.empty()) continue;
    text = merging_text(*std::get<KernelStep>(draw.step).program);
  }
  count(live_counters().stretches_planned);
  return made;
}

// The buffers that the stretch writes for others, and the places of its values.
void Linker::take_results(const Part& part) {
  const Draft& draft = part.draft->draft;
  for (std::size_t n = 0; n < draft.output_bytes.size(); ++n) {
    Made& made = made_.emplace_back();
    made.bytes = draft.output_bytes[n];
    if (const int donor = draft.donor[n]; donor >= 0)
      made.donor = static_cast<int>(part.leaves[static_cast<std::size_t>(donor)].index);
  }
  for (std::size_t r = 0; r < draft.results.size(); ++r) {
    const Result& result = draft.results[r];
    const std::uint32_t node = part.stretch->computes[result.node];
    channels_last_[node] = draft.channels_last[r];
    const bool is_held = stretches_.node(node).live;
    const BufferRef place =
        result.kind == Result::Kind::Output
            ? BufferRef{BufferRef::Kind::Output, part.first_output + result.number, 0}
            : part.leaves[result.number];
    places_[node] = place;
    if (place.kind == BufferRef::Kind::Leaf) {
      LeafUse& use = leaf_uses_[place.index];
      use.is_returned = use.is_returned || is_held;
      use.last_reader = std::max(use.last_reader, stretches_.last_reader({false, node}));
    } else if (is_held) {
      made_[place.index].is_held = true;
    }
    if (is_held) results_.emplace_back(node, place);
  }
}

// Names the buffer of a stretch as one of the batch. Temporaries of a loop's body stay its own.
void Linker::rename(const Part& part, Draft::Place& place) {
  if (place.own) return;
  BufferRef& buffer = place.buffer;
  switch (buffer.kind) {
    case BufferRef::Kind::Leaf: {
      const BufferRef& leaf = part.leaves[buffer.index];
      buffer.kind = leaf.kind;
      buffer.index = leaf.index;
      break;
    }
    case BufferRef::Kind::Output:
      buffer.index += part.first_output;
      break;
    case BufferRef::Kind::Temp:
      buffer.index += part.first_temporary;
      break;
  }
}

// The segment of a kernel with the buffers, arguments and sites of the batch.
Draft::Segment Linker::renamed(const Part& part, const kernel::Program& program,
                               const Draft::Segment& segment) {
  Draft::Segment result = segment;
  for (Draft::Place& place : result.buffers) rename(part, place);
  result.first_arg = static_cast<std::uint32_t>(plan_.arg_map.size());
  for (std::size_t a = 0; a < program.args.size(); ++a) {
    plan_.arg_map.push_back(part.stretch->args[part.draft->draft.arg_map[segment.first_arg + a]]);
  }
  if (part.stretch->sites.empty()) return result;
  for (const kernel::Instr& instr : program.instrs) {
    if (instr.kind != InstrKind::Bounded) continue;
    Extent& site = result.ints[static_cast<std::size_t>(instr.site.value)];
    site = part.stretch->sites[static_cast<std::size_t>(site.hint())];
  }
  return result;
}

// A step with the buffers, arguments and sites of the batch; so are the steps of a loop.
Draft::Draw Linker::renamed(const Part& part, const Draft::Draw& from) {
  Draft::Draw step = from;
  if (const auto* kernel = std::get_if<KernelStep>(&from.step)) {
    for (Draft::Segment& segment : step.segments)
      segment = renamed(part, *kernel->program, segment);
    return step;
  }
  for (auto* list : {&step.reads, &step.writes}) {
    for (Draft::Buffer& buffer : *list) rename(part, buffer.place);
  }
  if (from.loop == nullptr) return step;
  auto loop = std::make_shared<Draft::Looped>(*from.loop);
  for (Draft::LoopPart& body : loop->parts) {
    for (Draft::Draw& draw : body.steps) draw = renamed(part, draw);
  }
  step.loop = std::move(loop);
  return step;
}

void Linker::append_step(const Part& part, std::size_t number) {
  Draft::Draw& step = plan_.steps.emplace_back(renamed(part, part.draft->draft.steps[number]));
  if (step.scratch >= 0) step.scratch += static_cast<int>(part.first_temporary);
}

// A kernel for several elements of a list: the schedule of the one that moves most bytes.
struct MergedKernel {
  Draft::Draw step;
  std::shared_ptr<const kernel::Program> most;  // the program of that one
  std::int64_t most_bytes = -1;
};

// Appends the steps of parts that do not depend on each other. If nothing has to be kept between
// the steps of a part, equal kernels of several parts are one step.
void Linker::append(std::span<Part> parts) {
  const bool is_list = parts.size() > 1;
  if (is_list && std::all_of(parts.begin(), parts.end(), [](const Part& part) {
        return part.draft->draft.temporaries.empty();
      })) {
    return append_side_by_side(parts);
  }
  for (Part& part : parts) {
    part.first_temporary = static_cast<std::uint32_t>(plan_.temporaries.size());
    for (Temporary temporary : part.draft->draft.temporaries) {
      temporary.first += plan_.steps.size();
      temporary.last += plan_.steps.size();
      plan_.temporaries.push_back(temporary);
    }
    for (std::size_t s = 0; s < part.draft->draft.steps.size(); ++s) append_step(part, s);
  }
}

void Linker::append_side_by_side(std::span<const Part> parts) {
  std::size_t most_steps = 0;
  for (const Part& part : parts) most_steps = std::max(most_steps, part.draft->draft.steps.size());
  for (std::size_t s = 0; s < most_steps; ++s) {
    std::map<std::string, MergedKernel> kinds;
    for (const Part& part : parts) {
      const StretchDraft& stretch = *part.draft;
      if (s >= stretch.draft.steps.size()) continue;
      if (stretch.merging_texts[s].empty()) {
        append_step(part, s);
        continue;
      }
      const Draft::Draw& from = stretch.draft.steps[s];
      const auto& kernel = std::get<KernelStep>(from.step);
      MergedKernel& alike = kinds[stretch.merging_texts[s]];
      if (alike.most == nullptr) alike.step.step = kernel;
      alike.step.overwrites = alike.step.overwrites || from.overwrites;
      std::int64_t bytes = 0;
      for (const Draft::Segment& segment : from.segments) {
        alike.step.segments.push_back(renamed(part, *kernel.program, segment));
        bytes = std::max(bytes, (segment.bytes_read + segment.bytes_written).hint());
      }
      if (bytes > alike.most_bytes) alike.most_bytes = bytes, alike.most = kernel.program;
    }
    for (auto& [text, alike] : kinds) {
      auto& kernel = std::get<KernelStep>(alike.step.step);
      kernel.program = alike.most;
      if (alike.step.segments.size() > 1 && !kernel.program->schedule.horizontal) {
        auto merged = std::make_shared<kernel::Program>(*kernel.program);
        merged->schedule.horizontal = true;
        kernel::validate(*merged);
        kernel::report_program(*merged);
        kernel.program = std::move(merged);
      }
      plan_.steps.push_back(std::move(alike.step));
    }
  }
}

// Calls `visit` with every buffer of a step, and of the steps of a loop.
template <class Visit>
void visit_step(Draft::Draw& step, const Visit& visit) {
  for (Draft::Segment& segment : step.segments) {
    for (Draft::Place& place : segment.buffers) {
      if (!place.own) visit(place.buffer);
    }
  }
  for (auto* list : {&step.reads, &step.writes}) {
    for (Draft::Buffer& buffer : *list) {
      if (!buffer.place.own) visit(buffer.place.buffer);
    }
  }
  if (step.loop == nullptr) return;
  auto loop = std::make_shared<Draft::Looped>(*step.loop);
  for (Draft::LoopPart& body : loop->parts) {
    for (Draft::Draw& draw : body.steps) visit_step(draw, visit);
  }
  step.loop = std::move(loop);
}

template <class Visit>
void Linker::visit_buffers(const Visit& visit) {
  for (std::size_t s = 0; s < plan_.steps.size(); ++s)
    visit_step(plan_.steps[s], [&](BufferRef& buffer) { visit(s, buffer); });
}

// Values that somebody holds become outputs, the others that cross from stretch to stretch
// temporaries.
void Linker::settle() {
  visit_buffers([&](std::size_t step, const BufferRef& buffer) {
    if (buffer.kind != BufferRef::Kind::Output) return;
    Made& made = made_[buffer.index];
    made.first = std::min(made.first, step);
    made.last = std::max(made.last, step);
  });
  for (Made& made : made_) {
    if (made.is_held) {
      made.number = static_cast<std::uint32_t>(plan_.output_bytes.size());
      plan_.output_bytes.push_back(made.bytes);
      plan_.donor.push_back(made.donor);
      continue;
    }
    made.number = static_cast<std::uint32_t>(plan_.temporaries.size());
    plan_.temporaries.push_back({std::min(made.first, made.last), made.last, made.bytes});
  }
  const auto place = [&](BufferRef& buffer) {
    if (buffer.kind != BufferRef::Kind::Output) return;
    const Made& made = made_[buffer.index];
    buffer.kind = made.is_held ? BufferRef::Kind::Output : BufferRef::Kind::Temp;
    buffer.index = made.number;
  };
  visit_buffers([&](std::size_t, BufferRef& buffer) { place(buffer); });
  std::sort(results_.begin(), results_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [node, where] : results_) {
    place(where);
    plan_.results.push_back(
        {node, where.kind == BufferRef::Kind::Leaf ? Result::Kind::Leaf : Result::Kind::Output,
         where.index});
  }
  plan_.checked = checked_results(batch_, plan_.results);
}

std::vector<OutputOrigin> origins_of(const Draft& plan) {
  std::vector<OutputOrigin> origins(plan.output_bytes.size());
  const auto note = [&](const BufferRef& buffer, std::size_t step) {
    if (buffer.kind != BufferRef::Kind::Output) return;
    OutputOrigin& origin = origins[buffer.index];
    if (origin.step == 0) origin.step = static_cast<int>(step) + 1;
  };
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Draft::Draw& step = plan.steps[s];
    for (const Draft::Buffer& buffer : step.writes) note(buffer.place.buffer, s);
    const auto* kernel = std::get_if<KernelStep>(&step.step);
    if (kernel == nullptr) continue;
    for (const Draft::Segment& segment : step.segments) {
      for (std::size_t slot = 0; slot < segment.buffers.size(); ++slot) {
        if (kernel->program->slots[slot].written) note(segment.buffers[slot].buffer, s);
      }
    }
  }
  for (std::size_t n = 0; n < origins.size(); ++n) {
    origins[n].donor = plan.donor[n];
    if (plan.donor[n] < 0) continue;
    // Its kernel writes into the leaf.
    for (std::size_t s = 0; s < plan.steps.size() && origins[n].step == 0; ++s) {
      const auto* kernel = std::get_if<KernelStep>(&plan.steps[s].step);
      for (const Draft::Segment& segment : plan.steps[s].segments) {
        for (std::size_t slot = 0; slot < segment.buffers.size(); ++slot) {
          const BufferRef& buffer = segment.buffers[slot].buffer;
          if (kernel->program->slots[slot].written && buffer.kind == BufferRef::Kind::Leaf &&
              static_cast<int>(buffer.index) == plan.donor[n])
            origins[n].step = static_cast<int>(s) + 1;
        }
      }
    }
  }
  return origins;
}

}  // namespace

std::size_t StretchDraft::bytes() const {
  std::size_t bytes = sizeof *this + draft.bytes() + heap_bytes(merging_texts);
  for (const std::string& text : merging_texts) bytes += heap_bytes(text);
  return bytes;
}

std::unique_ptr<Plan> link_plan(const Batch& batch, const Stretches& stretches,
                                const std::vector<bool>& donatable, const DeviceEntry& entry,
                                GroupingCache& groupings, StretchCache& cache, Account* account) {
  const Draft draft = Linker(batch, stretches, donatable, entry, groupings, cache).run();
  if (account != nullptr) {
    account->add_results(batch, draft.results, origins_of(draft));
    account->explanation.stretches = static_cast<int>(stretches.all().size());
  }
  return instantiate(draft, entry, false, next_plan_id(),
                     [](Extent extent) { return extent.hint(); });
}

}  // namespace volta::plan
