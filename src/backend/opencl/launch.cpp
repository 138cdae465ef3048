// Launches of kernel programs with one binding; kernel/emit.h documents the order of the arguments.
#include "backend/opencl/launch.h"

#include "core/counting.h"
#include "kernel/emit.h"

namespace volta::opencl {

void set_ints(cl_kernel kernel, cl_uint index, const std::vector<std::int64_t>& ints,
              bool index64) {
  if (index64) {
    check(clSetKernelArg(kernel, index, ints.size() * sizeof(cl_long), ints.data()),
          "clSetKernelArg");
    return;
  }
  const std::vector<cl_int> narrow(ints.begin(), ints.end());
  check(clSetKernelArg(kernel, index, narrow.size() * sizeof(cl_int), narrow.data()),
        "clSetKernelArg");
}

void bind_buffer(cl_kernel kernel, std::size_t slot, Address address, bool rebind,
                 std::optional<Address>& bound) {
  if (bound == address && !rebind) return;
  const auto index = static_cast<cl_uint>(2 * slot);
  if (!bound || bound->base != address.base || rebind) {
    bound.reset();
    set_arg(kernel, index, memory_of(address));
  }
  set_arg(kernel, index + 1, cl_ulong{address.offset});
  bound = address;
}

Address RunBuffers::at(const plan::BufferRef& ref) const {
  const Address& start = ref.kind == plan::BufferRef::Kind::Leaf     ? leaves[ref.index]
                         : ref.kind == plan::BufferRef::Kind::Output ? outputs[ref.index]
                                                                     : arena;
  return {start.base, start.offset + ref.offset_in(iteration)};
}

void enqueue_blocks(DeviceContext& device, cl_kernel kernel, std::size_t blocks,
                    std::size_t threads) {
  const std::size_t global = blocks * threads;
  check(clEnqueueNDRangeKernel(device.queue(), kernel, 1, nullptr, &global, &threads, 0, nullptr,
                               device.timeline().next_event()),
        "clEnqueueNDRangeKernel");
  device.note_enqueued();
  count(live_counters().launches);
}

KernelLaunch::KernelLaunch(DeviceContext& device,
                           const std::shared_ptr<const kernel::Program>& shared,
                           const plan::Binding& binding, const PlanBlocks& blocks,
                           const std::string& label)
    : device_(device),
      kernel_(device.compiler().kernel(shared, label)),
      threads_(static_cast<std::size_t>(kernel::block_threads(*shared))),
      blocks_(static_cast<std::size_t>(kernel::block_count(*shared, binding.ints))),
      refs_(binding.buffers),
      bound_(binding.buffers.size()) {
  const kernel::Program& program = *shared;
  auto next = static_cast<cl_uint>(2 * refs_.size());
  if (!program.args.empty()) {
    set_arg(kernel_.get(), next++, blocks.args);
    set_arg(kernel_.get(), next++, cl_ulong{binding.first_arg});
  }
  if (kernel::analyze(program).has_bounded) set_arg(kernel_.get(), next++, blocks.error);
  if (program.int_params > 0) set_ints(kernel_.get(), next, binding.ints, program.schedule.index64);
}

KernelLaunch::KernelLaunch(DeviceContext& device, const SortLaunch& launch,
                           const std::string& label)
    : device_(device),
      kernel_(device.compiler().kernel(launch.source, label)),
      threads_(static_cast<std::size_t>(launch.threads)),
      blocks_(static_cast<std::size_t>(launch.blocks)),
      refs_(launch.buffers),
      bound_(launch.buffers.size()) {
  set_ints(kernel_.get(), static_cast<cl_uint>(2 * refs_.size()), launch.ints, true);
}

void KernelLaunch::bind(const RunBuffers& buffers) {
  for (std::size_t slot = 0; slot < refs_.size(); ++slot)
    bind_buffer(kernel_.get(), slot, buffers.at(refs_[slot]), buffers.rebind, bound_[slot]);
}

void KernelLaunch::enqueue(const RunBuffers&) {
  enqueue_blocks(device_, kernel_.get(), blocks_, threads_);
}

void LoopLaunch::bind(const RunBuffers& buffers) {
  RunBuffers now = buffers;
  for (const Part& part : parts_) {
    now.iteration = part.first;
    for (const auto& launch : part.launches) launch->bind(now);
  }
}

// What `rebind` asks for was done for the first iteration.
void LoopLaunch::enqueue(const RunBuffers& buffers) {
  RunBuffers now = buffers;
  now.rebind = false;
  for (const Part& part : parts_) {
    for (now.iteration = part.first; now.iteration < part.first + part.count; ++now.iteration) {
      for (const auto& launch : part.launches) {
        launch->bind(now);
        launch->enqueue(now);
      }
    }
  }
}

HeldBytes LoopLaunch::held() const {
  HeldBytes held{.host = sizeof(*this) + heap_bytes(parts_)};
  for (const Part& part : parts_) {
    held.host += heap_bytes(part.launches);
    for (const auto& launch : part.launches) {
      const HeldBytes more = launch->held();
      held.host += more.host;
      held.device += more.device;
    }
  }
  return held;
}

}  // namespace volta::opencl
