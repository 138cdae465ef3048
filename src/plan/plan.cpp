// Planning a batch: lower, group, build kernels, merge, place in memory.
#include "plan/plan.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <stdexcept>

#include "backend/sort_launches.h"
#include "core/registry.h"
#include "kernel/observer.h"
#include "plan/explain.h"
#include "plan/index_map.h"
#include "plan/steps_builder.h"
#include "plan/structure.h"

namespace volta::plan {
namespace {

std::uint32_t next_plan_id() {
  static std::atomic<std::uint32_t> id{1};
  return id.fetch_add(1, std::memory_order_relaxed);
}

StepDraft matmul_step(const std::vector<Value>& values, const Grouping& grouping,
                      const Group& group) {
  const Value& v = values[static_cast<std::size_t>(group.roots.front())];
  const MatrixView a = matrix_view(values, grouping.stored, v.in[0]);
  const MatrixView b = matrix_view(values, grouping.stored, v.in[1]);
  const int rank = v.shape.rank();
  MatmulStep m;
  m.dtype = values[static_cast<std::size_t>(v.in[0])].dtype;
  m.f32_result = v.dtype != m.dtype;
  m.m = v.shape[rank - 2];
  m.n = v.shape[rank - 1];
  m.batch = rank == 3 ? v.shape[0] : 1;
  const Shape& left = values[static_cast<std::size_t>(v.in[0])].shape;
  m.k = left[rank - (v.attrs[0] != 0 ? 2 : 1)];
  m.transpose_a = (v.attrs[0] != 0) != a.transposed;
  m.transpose_b = (v.attrs[1] != 0) != b.transposed;
  m.tf32 = v.attrs[2] != 0;
  m.lda = a.leading;
  m.ldb = b.leading;
  m.ldc = m.n;
  m.stride_a = a.batch_stride;
  m.stride_b = b.batch_stride;
  m.stride_c = m.m * m.n;
  m.offset_a = a.offset;
  m.offset_b = b.offset;
  m.label = v.label;
  m.has_bias = v.in[2] >= 0;
  m.activation = static_cast<Activation>(v.attrs[3]);
  m.keeps_input = group.roots.size() > 1;
  StepDraft step;
  step.reads = {a.base, b.base};
  for (const std::size_t more : {2, 3}) {
    if (v.in[more] >= 0) step.reads.push_back(reshape_base(values, v.in[more]));
  }
  step.call = std::move(m);
  step.writes = group.roots;
  return step;
}

StepDraft conv_step(const std::vector<Value>& values, int id) {
  const Value& v = values[static_cast<std::size_t>(id)];
  StepDraft step;
  ConvStep conv = conv_of(values, v);
  conv.label = v.label;
  step.scratch_bytes = conv.workspace_bytes;
  step.call = std::move(conv);
  for (const int in : v.in) {
    if (in >= 0) step.reads.push_back(reshape_base(values, in));
  }
  step.writes = {id};
  return step;
}

StepDraft sort_step(const std::vector<Value>& values, const Group& group, bool wide_device) {
  const Value& v = values[static_cast<std::size_t>(group.roots.front())];
  const Value& keys = values[static_cast<std::size_t>(v.in[0])];
  SortStep s;
  s.dtype = keys.dtype;
  s.index_dtype = v.dtype;
  s.descending = v.attrs[1] != 0;
  s.has_values = group.roots.size() > 1;
  s.rows = keys.shape[0];
  s.length = keys.shape[1];
  s.count = v.attrs[0];
  s.label = v.label;
  StepDraft step;
  step.reads = {reshape_base(values, v.in[0])};
  step.writes = group.roots;
  if (wide_device) step.scratch_bytes = sort_scratch_bytes(s);
  step.call = std::move(s);
  return step;
}

StepDraft attention_step(const std::vector<Value>& values, const Grouping& grouping,
                         const Group& group) {
  const Value& v = values[static_cast<std::size_t>(group.roots.front())];
  StepDraft step;
  AttentionStep a = attention_of(values, v);
  a.label = v.label;
  for (const int in : v.in) {
    if (in < 0) break;
    const StridedView view = strided_view(values, grouping.stored, in);
    AttentionStep::Operand operand;
    operand.offset = view.offset;
    std::copy_n(view.strides.begin(), std::min<std::size_t>(4, view.strides.size()),
                operand.strides.begin());
    a.reads.push_back(operand);
    step.reads.push_back(view.base);
  }
  step.writes = group.roots;
  step.scratch_bytes = a.workspace_bytes;
  step.call = std::move(a);
  return step;
}

// The call that the group is.
StepDraft call_step(const std::vector<Value>& values, const Grouping& grouping, const Group& group,
                    bool wide_device) {
  const int id = group.roots.front();
  switch (values[static_cast<std::size_t>(id)].kind) {
    case ValueKind::Matmul:
      return matmul_step(values, grouping, group);
    case ValueKind::Conv:
      return conv_step(values, id);
    case ValueKind::Attention:
      return attention_step(values, grouping, group);
    default:
      return sort_step(values, group, wide_device);
  }
}

// The kernels and products of a grouping. Throws NeedsStore.
std::vector<StepDraft> steps_of(const std::vector<Value>& values, const Grouping& grouping,
                                bool wide_device) {
  std::vector<StepDraft> steps;
  for (std::size_t g = 0; g < grouping.groups.size(); ++g) {
    const Group& group = grouping.groups[g];
    StepDraft step;
    if (values[static_cast<std::size_t>(group.roots.front())].kind == ValueKind::Join) continue;
    if (group.is_call) {
      step = call_step(values, grouping, group, wide_device);
      for (std::size_t k = 0; k < step.reads.size(); ++k) {
        const Value& v = values[static_cast<std::size_t>(group.roots.front())];
        if (step.reads[k] < 0) throw NeedsStore{v.in[k]};
        step.reads[k] = memory_of(values, step.reads[k]);
      }
    } else {
      step.segments.push_back(build_kernel(values, grouping, static_cast<int>(g), wide_device));
    }
    step.collect();
    steps.push_back(std::move(step));
  }
  return steps;
}

// Groups and their kernels: as for an earlier batch of the same structure if that works out at
// these sizes. A group that turns out not to be expressible names the value that has to lie in
// memory, and grouping starts again.
std::vector<StepDraft> draft_steps(const std::vector<Value>& values,
                                   const std::vector<int>& outputs, bool wide_device,
                                   GroupingCache& cache) {
  const graph::Hash structure = structure_of(values, outputs);
  if (const auto known = cache.find(structure, values)) {
    try {
      return steps_of(values, *known, wide_device);
    } catch (const NeedsStore&) {  // another cut is needed at these sizes
    }
  }
  std::vector<bool> must_store(values.size(), false);
  for (;;) {
    Grouping grouping = Grouper(values, outputs, must_store, wide_device).run();
    try {
      std::vector<StepDraft> steps = steps_of(values, grouping, wide_device);
      cache.insert(structure, std::move(grouping));
      return steps;
    } catch (const NeedsStore& needs) {
      const std::size_t base = static_cast<std::size_t>(reshape_base(values, needs.value));
      if (must_store[base]) throw std::logic_error("planner: a stored value cannot be read back");
      must_store[base] = true;
    }
  }
}

// Per node: whether it depends on an index that the batch checks.
std::vector<bool> checked_nodes(const graph::Batch& batch) {
  std::vector<bool> checked(batch.nodes.size(), false);
  if (batch.sites.empty()) return checked;
  for (std::size_t n = 0; n < batch.nodes.size(); ++n) {
    const std::span<graph::Node* const> inputs = batch.nodes[n]->input_span();
    checked[n] =
        checks_indices(batch.nodes[n]->op) ||
        std::any_of(inputs.begin(), inputs.end(), [&](const graph::Node* input) {
          return input->index < n && batch.nodes[input->index] == input && checked[input->index];
        });
  }
  return checked;
}

// Which leaf's variable each new value was assigned to.
std::map<int, int> predecessors(const graph::Batch& batch, const Lowering& lowering) {
  std::map<int, int> result;
  for (const graph::JournalEntry& entry : batch.journal) {
    if (entry.leaf == graph::Batch::kNoLeaf) continue;
    result[reshape_base(lowering.values, lowering.node_values[entry.assigned->index])] =
        static_cast<int>(entry.leaf);
  }
  return result;
}

}  // namespace

Plan::Plan() = default;

Plan::~Plan() {
  for (const auto& pair : kept) {
    for (graph::Buffer* buffer : pair) {
      if (buffer == nullptr) continue;
      buffer->kept = false;
      graph::release(buffer);
    }
  }
}

std::unique_ptr<Plan> build_plan(const graph::Batch& batch, const std::vector<bool>& donatable,
                                 const DeviceEntry& entry, GroupingCache& groupings,
                                 const graph::Node* only, Account* account) {
  auto plan = std::make_unique<Plan>();
  plan->steps.id = next_plan_id();
  const bool wide_device = !entry.device.is_cpu();
  const Lowering lowering(batch, entry);
  const std::vector<Value>& values = lowering.values;

  // Results: every held node lies in the buffer of a stored value or of a leaf.
  std::vector<int> held_values, output_values;
  const std::vector<bool> checked = checked_nodes(batch);
  std::vector<bool> leaf_kept(batch.leaves.size(), false), is_output(values.size(), false);
  std::vector<int> output_number(values.size(), -1);
  for (const graph::Node* node : batch.nodes) {
    if (only != nullptr ? node != only : !node->live) continue;
    const int base = reshape_base(values, lowering.node_values[node->index]);
    const Value& v = values[static_cast<std::size_t>(base)];
    held_values.push_back(lowering.node_values[node->index]);
    plan->checked.push_back(checked[node->index]);
    if (v.kind == ValueKind::Leaf) {
      leaf_kept[static_cast<std::size_t>(v.number)] = true;
      plan->results.push_back(
          {node->index, Result::Kind::Leaf, static_cast<std::uint32_t>(v.number)});
      continue;
    }
    int& number = output_number[static_cast<std::size_t>(base)];
    if (number < 0) {
      number = static_cast<int>(output_values.size());
      output_values.push_back(base);
      is_output[static_cast<std::size_t>(base)] = true;
      plan->steps.output_bytes.push_back(static_cast<std::uint64_t>(v.shape.numel()) *
                                         size_of(v.dtype));
    }
    plan->results.push_back(
        {node->index, Result::Kind::Output, static_cast<std::uint32_t>(number)});
  }

  std::vector<StepDraft> steps = draft_steps(values, held_values, wide_device, groupings);
  const std::map<int, int> predecessor = predecessors(batch, lowering);
  Donation donation{donatable, leaf_kept, is_output, predecessor, {}, {}};
  donate(steps, values, donation);
  steps = merge_horizontally(std::move(steps), values, is_output);
  for (const int value : output_values)
    plan->donor.push_back(donation.donor[static_cast<std::size_t>(value)]);

  std::vector<std::int64_t> offset(values.size(), -1);
  plan->steps.arena_bytes = place_temporaries(steps, values, is_output, offset);
  for (const graph::Leaf& leaf : batch.leaves) {
    plan->steps.leaf_bytes.push_back(static_cast<std::uint64_t>(leaf.node->shape.numel()) *
                                     size_of(leaf.node->dtype));
  }

  const auto buffer = [&](int value) {
    const std::size_t v = static_cast<std::size_t>(value);
    if (values[v].kind == ValueKind::Leaf) {
      return BufferRef{BufferRef::Kind::Leaf, static_cast<std::uint32_t>(values[v].number), 0};
    }
    if (is_output[v])
      return BufferRef{BufferRef::Kind::Output, static_cast<std::uint32_t>(output_number[v]), 0};
    return BufferRef{BufferRef::Kind::Temp, 0, static_cast<std::uint64_t>(offset[v])};
  };
  if (account != nullptr) account->add_results(batch, *plan, output_values, steps, donation);
  for (StepDraft& step : steps) {
    plan->steps.work.push_back(work_of(step, values));
    if (step.segments.empty()) {
      std::vector<BufferRef> reads, writes;
      for (const int value : step.reads) reads.push_back(buffer(value));
      for (const int value : step.writes) writes.push_back(buffer(value));
      const BufferRef scratch{BufferRef::Kind::Temp, 0, step.scratch_offset};
      if (auto* sort = std::get_if<SortStep>(&step.call)) sort->scratch = scratch;
      if (auto* conv = std::get_if<ConvStep>(&step.call)) conv->scratch = scratch;
      if (auto* attention = std::get_if<AttentionStep>(&step.call)) attention->scratch = scratch;
      std::visit(
          [&](auto& call) {
            call.bind(reads, writes);
            plan->steps.steps.emplace_back(std::move(call));
          },
          step.call);
      continue;
    }
    KernelStep kernel;
    kernel.label = step.segments.front().label;
    for (KernelDraft& draft : step.segments) {
      Binding binding;
      binding.ints = std::move(draft.ints);
      binding.first_arg = static_cast<std::uint32_t>(plan->arg_map.size());
      for (const int arg : draft.args) plan->arg_map.push_back(static_cast<std::uint32_t>(arg));
      for (const int value : draft.slot_values) binding.buffers.push_back(buffer(value));
      kernel.segments.push_back(std::move(binding));
    }
    kernel.program =
        std::make_shared<const kernel::Program>(std::move(step.segments.front().program));
    kernel::validate(*kernel.program);
    kernel::report_program(*kernel.program);
    plan->steps.steps.emplace_back(std::move(kernel));
  }
  plan->steps.arg_words = static_cast<std::uint32_t>(plan->arg_map.size());
  plan->kept.resize(plan->steps.output_bytes.size());
  return plan;
}

}  // namespace volta::plan
