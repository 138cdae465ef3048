// Execution of operations: scopes of policy, submission, and a readable explanation of a plan.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "volta/detail/scope.h"
#include "volta/tensor.h"

namespace volta {

enum class Precision : std::uint8_t { f32, tf32 };
enum class MixedDevices : std::uint8_t { to_gpu, to_cpu, error };
// Decides where operations run, and where new tensors without a named device are created. Values
// are moved as needed and stay where they were used, so a parameter moves once. See
// docs/devices.md.
enum class Placement : std::uint8_t {
  standard,            // as VOLTA_DEVICE says, by default as written
  as_written,          // operations run where their tensors are; new tensors are on the CPU
  automatic,           // by size: on the GPU from gpu_threshold elements on
  by_cost,             // where it is estimated to finish first, moves included (volta/placement.h)
  minimize_transfers,  // where most bytes of the operands are; new tensors are on the CPU
  force_gpu,           // on the GPU; without a GPU on the CPU, with one message
  force_cpu,           // on the CPU
};

// One option of a scope. An option that is not named has the value of the enclosing scope, or the
// standard value in the outermost scope.
template <class T>
class ScopeOption {
 public:
  constexpr ScopeOption(T value) : value_(value), is_named_(true) {}  // NOLINT: implicit
  static constexpr ScopeOption standard(T value) {
    ScopeOption option(value);
    option.is_named_ = false;
    return option;
  }
  constexpr operator T() const { return value_; }  // NOLINT: implicit
  constexpr T value() const { return value_; }
  constexpr bool is_named() const { return is_named_; }
  // This option if it is named, otherwise the one of the enclosing scope.
  constexpr ScopeOption within(ScopeOption around) const { return is_named_ ? *this : around; }

 private:
  T value_;
  bool is_named_;
};

// Options that are not named keep their value from the enclosing scope.
struct ExecutionOptions {
  // Products of f32 use full f32 precision by default.
  ScopeOption<Precision> matmul = ScopeOption<Precision>::standard(Precision::f32);
  // Operands on two devices: move them with a warning, or refuse.
  ScopeOption<MixedDevices> mixed_devices =
      ScopeOption<MixedDevices>::standard(MixedDevices::to_gpu);
  ScopeOption<Placement> placement = ScopeOption<Placement>::standard(Placement::standard);
  // The number of elements from which on a tensor counts as large.
  ScopeOption<std::int64_t> gpu_threshold = ScopeOption<std::int64_t>::standard(100'000);
  // The GPU that placement uses; by default Device::gpu().
  std::optional<Device> gpu = std::nullopt;
  // Equal programs give equal bits. If false, libraries may add in any order; so far this affects
  // only the gradient of attention on CUDA.
  ScopeOption<bool> deterministic = ScopeOption<bool>::standard(true);
};

// Sets the policy of this thread while the object lives: the named options, and otherwise those of
// the enclosing scope.
class VOLTA_API ExecutionContext : public Scope<ExecutionOptions> {
 public:
  explicit ExecutionContext(ExecutionOptions options);
  ~ExecutionContext();
};
// Returns the options in force, all of them named; `placement` is never `standard`.
VOLTA_API ExecutionOptions execution_options();

// Submits everything that this thread has recorded on the device and still holds. Does not wait.
VOLTA_API void submit(Device device);

VOLTA_API void set_num_threads(int threads);  // for the CPU backend
VOLTA_API int num_threads();

// A kernel or library call that computing the tensors now would run.
struct StepInfo {
  std::string kind;  // "kernel", "matmul", "convolution", "attention", "sort" or "loop"
  std::string what;  // the operations in the step
  std::string schedule;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t operations = 0;
  bool memory_bound = true;  // moving the bytes takes longer than the arithmetic
  // Estimated from the device's nominal figures; 0 if its backend has none.
  double seconds = 0;
  double peak_share = 0;  // fraction of the peak bandwidth or arithmetic, whichever bounds the step
  // Of a loop: the steps of its iterations, each once. The figures above are those of all of them.
  std::vector<StepInfo> body = {};
  std::int64_t times = 1;  // how often a step of a body runs
};
// A value that remains in memory after the computation.
struct ResultInfo {
  std::string what;    // dtype, shape, operation
  std::string place;   // source location of the operation
  std::string memory;  // whose buffer it takes over, or why it takes over none
  std::string holder;  // who needs the value: handles, gradients
  std::uint64_t bytes = 0;
  int step = 0;  // the step that writes it, from 1; 0 if it is already in memory
};
struct VOLTA_API Explanation {
  std::vector<StepInfo> steps;
  std::vector<ResultInfo> results;
  std::uint64_t arena_bytes = 0;
  // The plan is linked from so many stretches that are planned apart, because no two of the
  // program's steps were alike; 0 if it is planned as a whole.
  int stretches = 0;
  int kernels() const;
  int library_calls() const;
};
VOLTA_API Explanation explain(const Tensor& tensor);
VOLTA_API Explanation explain(std::span<const Tensor> tensors);
VOLTA_API std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

}  // namespace volta
