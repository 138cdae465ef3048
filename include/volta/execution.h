// How operations run: scopes of policy, submission, and a readable account of a plan.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "volta/scope.h"
#include "volta/tensor.h"

namespace volta {

enum class Precision : std::uint8_t { f32, tf32 };
enum class MixedDevices : std::uint8_t { to_gpu, to_cpu, error };
// Where operations run, and where tensors are made that no device is named for. Values are moved as
// that needs it and stay where they were used: a parameter moves once. docs/devices.md
enum class Placement : std::uint8_t {
  standard,            // what VOLTA_DEVICE says; where it says nothing, as written
  as_written,          // operations where their tensors are; new tensors on the CPU
  automatic,           // by size: on the GPU from gpu_threshold elements on
  by_cost,             // where it is reckoned to be done first, moves included (volta/placement.h)
  minimize_transfers,  // where the most bytes of the operands are; new tensors on the CPU
  force_gpu,           // on the GPU; without one on the CPU, with one message
  force_cpu,           // on the CPU
};

// One option of a scope. Where it is not named, the scope has what the one around it has, and the
// outermost scope the standard value.
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
  // This one where it is named, else the other.
  constexpr ScopeOption within(ScopeOption around) const { return is_named_ ? *this : around; }

 private:
  T value_;
  bool is_named_;
};

// What a scope changes: options that are not named stay as they are around it.
struct ExecutionOptions {
  // f32 products are true f32 unless asked.
  ScopeOption<Precision> matmul = ScopeOption<Precision>::standard(Precision::f32);
  // Operands on two devices: move with a warning, or refuse.
  ScopeOption<MixedDevices> mixed_devices =
      ScopeOption<MixedDevices>::standard(MixedDevices::to_gpu);
  ScopeOption<Placement> placement = ScopeOption<Placement>::standard(Placement::standard);
  // Elements from which on a tensor counts as large.
  ScopeOption<std::int64_t> gpu_threshold = ScopeOption<std::int64_t>::standard(100'000);
  // The one that placement means; named nowhere: Device::gpu().
  std::optional<Device> gpu = std::nullopt;
  // Equal programs give equal bits. Without, libraries may add up in whatever order is fastest; so
  // far that is the gradient of attention on CUDA.
  ScopeOption<bool> deterministic = ScopeOption<bool>::standard(true);
};

// The policy of this thread for as long as the object lives: the named options, and those of the
// scope around it.
class VOLTA_API ExecutionContext : public Scope<ExecutionOptions> {
 public:
  explicit ExecutionContext(ExecutionOptions options);
  ~ExecutionContext();
};
// Those in force, each as if named; `placement` is never `standard`.
VOLTA_API ExecutionOptions execution_options();

// Runs everything this thread has recorded on the device and still holds; returns without waiting.
VOLTA_API void submit(Device device);

VOLTA_API void set_num_threads(int threads);  // of the CPU backend
VOLTA_API int num_threads();

// The kernels and library calls that computing these tensors now would run.
struct StepInfo {
  std::string kind;  // "kernel", "matmul", "convolution", "attention" or "sort"
  std::string what;  // the operations in it
  std::string schedule;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t operations = 0;
  bool memory_bound = true;  // bytes take longer than operations
  // From the device's nominal figures; 0 where its backend has none.
  double seconds = 0;
  double peak_share = 0;  // of the bandwidth or the arithmetic that bounds the step
};
// A value that computing them leaves in memory.
struct ResultInfo {
  std::string what;    // dtype, shape, operation
  std::string place;   // where the operation was recorded
  std::string memory;  // whose buffer it takes over, or why not
  std::string holder;  // who wants it: handles, gradients
  std::uint64_t bytes = 0;
  int step = 0;  // the step that writes it, counted from 1; 0: it is in memory already
};
struct VOLTA_API Explanation {
  std::vector<StepInfo> steps;
  std::vector<ResultInfo> results;
  std::uint64_t arena_bytes = 0;
  int kernels() const;
  int library_calls() const;
};
VOLTA_API Explanation explain(const Tensor& tensor);
VOLTA_API Explanation explain(std::span<const Tensor> tensors);
VOLTA_API std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

}  // namespace volta
