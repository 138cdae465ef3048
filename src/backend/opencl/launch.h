// The launches of a prepared plan: each binds the buffers of a run and then enqueues itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/common/sort_launches.h"
#include "backend/opencl/device_context.h"
#include "backend/opencl/handles.h"
#include "backend/steps.h"
#include "core/heap_bytes.h"

namespace volta::opencl {

// The buffers of one run, or of an iteration of a loop.
struct RunBuffers {
  std::span<const Address> leaves;
  std::span<const Address> outputs;
  Address arena;
  // Set if known handles may now name other objects, so that everything has to be bound again.
  bool rebind = false;
  std::int64_t iteration = 0;

  Address at(const plan::BufferRef& ref) const;
};

// Buffers that all launches of a plan share; null if the plan has none.
struct PlanBlocks {
  cl_mem args = nullptr;
  cl_mem error = nullptr;  // a kernel::ErrorRecord
};

inline cl_mem memory_of(Address address) { return static_cast<cl_mem>(address.base); }

class Launch {
 public:
  virtual ~Launch() = default;

  // Does everything that can fail for lack of memory or a compiler. Runs for all launches before
  // any of them is enqueued.
  virtual void bind(const RunBuffers& buffers) = 0;
  // Enqueues the launch and counts its kernels. `buffers` are those that it was bound to.
  virtual void enqueue(const RunBuffers& buffers) = 0;
  // Estimates of the memory that the launch holds after it was bound.
  virtual HeldBytes held() const { return {.host = kKernelObjectBytes}; }

 protected:
  // A driver's kernel object with its arguments.
  static constexpr std::uint64_t kKernelObjectBytes = 2048;
};

// Sets the integer arguments of a kernel, as 64-bit integers if `index64`.
void set_ints(cl_kernel kernel, cl_uint index, const std::vector<std::int64_t>& ints, bool index64);

// Sets the two arguments of a slot, unless `bound` already holds this address and `rebind` is
// false.
void bind_buffer(cl_kernel kernel, std::size_t slot, Address address, bool rebind,
                 std::optional<Address>& bound);

// Enqueues and counts a one-dimensional launch.
void enqueue_blocks(DeviceContext& device, cl_kernel kernel, std::size_t blocks,
                    std::size_t threads);

// A kernel program with one binding, or one kernel of a sort.
class KernelLaunch final : public Launch {
 public:
  KernelLaunch(DeviceContext& device, const std::shared_ptr<const kernel::Program>& program,
               const plan::Binding& binding, const PlanBlocks& blocks, const std::string& label);
  KernelLaunch(DeviceContext& device, const SortLaunch& launch, const std::string& label);

  void bind(const RunBuffers& buffers) override;
  void enqueue(const RunBuffers& buffers) override;
  HeldBytes held() const override {
    return {.host = kKernelObjectBytes + sizeof(*this) + heap_bytes(refs_) + heap_bytes(bound_)};
  }

 private:
  DeviceContext& device_;
  Kernel kernel_;
  std::size_t threads_ = 0;
  std::size_t blocks_ = 0;
  std::vector<plan::BufferRef> refs_;
  std::vector<std::optional<Address>> bound_;  // one per slot
};

// A loop: the launches of an iteration are bound anew for each.
class LoopLaunch final : public Launch {
 public:
  struct Part {
    std::int64_t first = 0, count = 0;
    std::vector<std::unique_ptr<Launch>> launches = {};
  };
  explicit LoopLaunch(std::vector<Part> parts) : parts_(std::move(parts)) {}

  // Binds the first iteration of each part, so that what is allocated then is there.
  void bind(const RunBuffers& buffers) override;
  void enqueue(const RunBuffers& buffers) override;
  HeldBytes held() const override;

 private:
  std::vector<Part> parts_;
};

}  // namespace volta::opencl
