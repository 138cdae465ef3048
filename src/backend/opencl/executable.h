// A plan prepared for one OpenCL device: a flat list of launches.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/common/gemm_launches.h"
#include "backend/opencl/compiler.h"
#include "backend/opencl/device_context.h"
#include "backend/opencl/launch.h"

namespace volta::opencl {

class OpenClExecutable final : public Executable {
 public:
  OpenClExecutable(std::shared_ptr<DeviceContext> device, const plan::PlanSteps& steps);

  void run(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
           std::span<const std::uint64_t> args) override;
  std::optional<kernel::ErrorRecord> take_error() override;

 private:
  void enqueue(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
               std::span<const std::uint64_t> args);
  PlanBlocks blocks() const { return {args_.get(), error_.get()}; }
  // A step that the compiler was told of. A loop has those of its parts.
  struct Prepared {
    plan::Step step;
    std::optional<GemmLaunches> product = {};
    std::vector<std::vector<Prepared>> parts = {};
  };
  using Launches = std::vector<std::unique_ptr<Launch>>;
  // Products become kernels too. Adds the kernels that have to be built to `kernels`, and those
  // that are built already to `known`.
  std::vector<Prepared> prepare(const std::vector<plan::Step>& steps,
                                std::vector<Compiler::Wanted>& kernels, Compiler::Programs& known);
  void add(const Prepared& step, Launches& launches);
  void add(const plan::KernelStep& step, Launches& launches);
  void add(const plan::SortStep& step, Launches& launches);
  void write_error(const kernel::ErrorRecord& record);
  void measure();

  std::shared_ptr<DeviceContext> device_;
  const std::uint32_t plan_;           // the plan's number
  const std::uint32_t stream_number_;  // the compute stream it runs in
  std::uint64_t arg_bytes_ = 0;
  BufferHandle args_, error_;
  bool checks_indices_ = false;
  bool error_used_ = false;  // since it was last read
  std::vector<std::uint64_t> written_args_;
  Launches launches_;
  std::vector<std::uint32_t> numbers_;  // the step number of each launch
  std::uint64_t releases_ = 0;
  bool measured_ = false;  // `held` is that of bound launches
};

}  // namespace volta::opencl
