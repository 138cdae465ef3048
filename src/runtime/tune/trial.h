// A step of a plan, run on memory of its own to see how long it takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "plan/plan_steps.h"

namespace volta::plan {

class Trial {
 public:
  // The memory that one of the plan's steps needs, filled with numbers, within the limit that the
  // device's pool has. Kernels and products only.
  Trial(Backend& backend, int device, const PlanSteps& plan, const Step& step);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // False where the device has no memory to spare; then nothing can be run.
  bool has_memory() const { return memory_.base != nullptr; }

  // The step, or another form of it, made ready. Throws as Backend::prepare.
  std::unique_ptr<Executable> prepare(const Step& step) const;
  // The same for several: compiles their kernels side by side.
  void compile(const std::vector<const Step*>& steps) const;

  // Seconds of a run, of `times` in a row; volta::counters() has none of them.
  double seconds(Executable& executable, int times);

 private:
  struct Place {
    BufferRef buffer;
    std::uint64_t offset = 0, bytes = 0;
    DType dtype = DType::f32;
  };
  void add(const BufferRef& buffer, DType dtype, std::uint64_t bytes);
  void add_buffers(const KernelStep& step);
  void add_buffers(const MatmulStep& step);
  void fill(const Step& step);
  void release() noexcept;
  std::size_t leaf_of(const BufferRef& buffer) const;
  void move_to_leaves(Step& step) const;

  Backend& backend_;
  const int device_;
  const PlanSteps& plan_;
  std::vector<Place> places_;
  std::uint64_t set_bytes_ = 0;
  Address memory_;
  std::vector<std::vector<Address>> sets_;  // the leaves' addresses; more than a cache holds
  std::size_t next_set_ = 0;
  std::vector<std::uint64_t> args_;
};

}  // namespace volta::plan
