// Runs a step of a plan on memory of its own to measure its time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/steps.h"

namespace volta::plan {

class Trial {
 public:
  // Allocates and fills the memory that a step of the plan needs, within the limit of the device's
  // pool. The step is a kernel or a call that has several forms (Call::forms).
  Trial(Backend& backend, int device, const PlanSteps& plan, const Step& step);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // False if the device has no memory to spare; then nothing can be run.
  bool has_memory() const { return memory_.base != nullptr; }

  // Prepares the step or another form of it. Throws like Backend::prepare.
  std::unique_ptr<Executable> prepare(const Step& step) const;
  // Compiles the kernels of several steps in parallel, for later calls of prepare.
  void compile(const std::vector<const Step*>& steps) const;

  // The mean seconds of `times` runs in a row. These runs do not appear in volta::counters().
  double seconds(Executable& executable, int times);

 private:
  struct BufferPlace {
    BufferRef buffer;
    std::uint64_t offset = 0, bytes = 0;
    DType dtype = DType::f32;
  };
  void add(const BufferRef& buffer, DType dtype, std::uint64_t bytes);
  void add_buffers(const KernelStep& step);
  void fill(const Step& step);
  void release() noexcept;
  std::size_t leaf_of(const BufferRef& buffer) const;
  void move_to_leaves(Step& step) const;

  Backend& backend_;
  const int device_;
  const PlanSteps& plan_;
  std::vector<BufferPlace> places_;
  std::uint64_t set_bytes_ = 0;
  Address memory_;
  // Addresses of the leaves for several copies of the memory, used in turn so that caches do not
  // help.
  std::vector<std::vector<Address>> sets_;
  std::size_t next_set_ = 0;
  std::vector<std::uint64_t> args_;
};

}  // namespace volta::plan
