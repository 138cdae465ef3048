// Distributes the segments of a horizontal program over launches and keeps their tables on the
// device.
#include "backend/opencl/horizontal_launch.h"

#include <algorithm>
#include <set>
#include <utility>

#include "kernel/emit.h"

namespace volta::opencl {
namespace {

constexpr auto kBases = static_cast<std::size_t>(kernel::kHorizontalBases);
constexpr int kBaseShift = 56;

std::set<cl_mem> bases_of(const std::vector<Address>& addresses) {
  std::set<cl_mem> bases;
  for (const Address& address : addresses) {
    if (address.base) bases.insert(memory_of(address));
  }
  return bases;
}

// Adds the memory objects if the total still fits; returns whether it does.
bool merge(std::vector<cl_mem>& bases, const std::set<cl_mem>& more) {
  std::vector<cl_mem> merged = bases;
  for (cl_mem base : more) {
    if (std::find(merged.begin(), merged.end(), base) == merged.end()) merged.push_back(base);
  }
  if (merged.size() > kBases) return false;
  bases = std::move(merged);
  return true;
}

}  // namespace

HorizontalLaunch::HorizontalLaunch(DeviceContext& device, const plan::KernelStep& step,
                                   const PlanBlocks& blocks)
    : device_(device),
      program_(step.program),
      label_(step.label),
      blocks_(blocks),
      threads_(static_cast<std::size_t>(kernel::block_threads(*step.program))) {
  for (const plan::Binding& binding : step.segments) {
    const std::int64_t blocks = kernel::block_count(*program_, binding.ints);
    if (blocks > 0)
      segments_.push_back({binding, blocks, std::vector<Address>(binding.buffers.size()), nullptr});
  }
  if (!segments_.empty()) parts_.push_back(make_part());
}

HorizontalLaunch::Part HorizontalLaunch::make_part() {
  Part part;
  part.kernel = device_.compiler().kernel(program_, label_);
  cl_uint next = 2;  // after the table and the number of segments
  if (!program_->args.empty()) {
    set_arg(part.kernel.get(), next++, blocks_.args);
    set_arg(part.kernel.get(), next++, cl_ulong{0});
  }
  if (kernel::analyze(*program_).has_bounded) set_arg(part.kernel.get(), next++, blocks_.error);
  first_base_ = next;
  return part;
}

std::unique_ptr<KernelLaunch> HorizontalLaunch::make_alone(const Segment& segment) {
  auto single = std::make_shared<kernel::Program>(*program_);
  single->schedule.horizontal = false;
  return std::make_unique<KernelLaunch>(device_, single, segment.binding, blocks_, label_);
}

void HorizontalLaunch::bind(const RunBuffers& buffers) {
  bool changed = !laid_out_ || buffers.rebind;
  for (Segment& segment : segments_) {
    for (std::size_t slot = 0; slot < segment.addresses.size(); ++slot) {
      const Address address = buffers.at(segment.binding.buffers[slot]);
      changed |= address != segment.addresses[slot];
      segment.addresses[slot] = address;
    }
  }
  if (!changed) return;
  laid_out_ = false;
  layout(buffers);
  laid_out_ = true;
}

void HorizontalLaunch::layout(const RunBuffers& buffers) {
  alone_.clear();
  std::vector<Content> contents;
  for (Segment& segment : segments_) {
    if (bases_of(segment.addresses).size() > kBases) {
      if (!segment.alone) segment.alone = make_alone(segment);
      segment.alone->bind(buffers);
      alone_.push_back(segment.alone.get());
    } else {
      add(contents, segment);
    }
  }
  while (parts_.size() < contents.size()) parts_.push_back(make_part());
  for (std::size_t i = 0; i < contents.size(); ++i)
    update(parts_[i], std::move(contents[i]), buffers.rebind);
  used_parts_ = contents.size();
}

void HorizontalLaunch::add(std::vector<Content>& contents, const Segment& segment) const {
  const std::set<cl_mem> bases = bases_of(segment.addresses);
  if (contents.empty() || !merge(contents.back().bases, bases)) {
    contents.emplace_back();
    merge(contents.back().bases, bases);
  }
  Content& content = contents.back();
  content.words.push_back(content.blocks);
  for (const std::int64_t value : segment.binding.ints)
    content.words.push_back(static_cast<std::uint64_t>(value));
  for (const Address& address : segment.addresses) {
    const auto base = std::find(content.bases.begin(), content.bases.end(), memory_of(address));
    const auto number =
        base == content.bases.end() ? 0 : static_cast<std::uint64_t>(base - content.bases.begin());
    content.words.push_back(number << kBaseShift | address.offset);
  }
  content.words.push_back(segment.binding.first_arg);
  content.segments += 1;
  content.blocks += static_cast<std::size_t>(segment.blocks);
}

void HorizontalLaunch::update(Part& part, Content content, bool rebind) {
  // If something below fails, the empty content makes the next run write the table again.
  Content old = std::exchange(part.content, {});
  cl_kernel kernel = part.kernel.get();
  if (content.words.size() > part.capacity) {
    part.capacity = 0;
    part.table = device_.allocate(content.words.size() * sizeof(cl_ulong),
                                  "the table of a horizontal kernel");
    set_arg(kernel, 0, part.table.get());
    part.capacity = content.words.size();
  }
  if (content.words != old.words) {
    device_.write(part.table.get(), 0, content.words.data(),
                  content.words.size() * sizeof(cl_ulong));
  }
  set_arg(kernel, 1, static_cast<cl_int>(content.segments));
  if (rebind || content.bases != old.bases) {
    for (std::size_t i = 0; i < kBases; ++i) {
      // Arguments that no row refers to still need a valid object.
      const cl_mem base =
          content.bases.empty() ? nullptr : content.bases[i < content.bases.size() ? i : 0];
      set_arg(kernel, first_base_ + static_cast<cl_uint>(i), base);
    }
  }
  part.content = std::move(content);
}

HeldBytes HorizontalLaunch::held() const {
  HeldBytes held{.host = sizeof(*this) + heap_bytes(segments_) + heap_bytes(parts_)};
  for (const Segment& segment : segments_) {
    held.host += heap_bytes(segment.binding.ints) + heap_bytes(segment.binding.buffers) +
                 heap_bytes(segment.addresses);
    if (segment.alone) held.host += segment.alone->held().host;
  }
  for (const Part& part : parts_) {
    held.host += kKernelObjectBytes + heap_bytes(part.content.words);
    held.device += part.capacity * sizeof(cl_ulong);
  }
  return held;
}

void HorizontalLaunch::enqueue(const RunBuffers& buffers) {
  for (KernelLaunch* launch : alone_) launch->enqueue(buffers);
  for (std::size_t i = 0; i < used_parts_; ++i) {
    enqueue_blocks(device_, parts_[i].kernel.get(), parts_[i].content.blocks, threads_);
  }
}

}  // namespace volta::opencl
