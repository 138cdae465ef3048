// How operations run: scopes of policy, submission, and a readable account of a plan.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "volta/scope.h"
#include "volta/tensor.h"

namespace volta {

enum class Precision : std::uint8_t { f32, tf32 };
enum class MixedDevices : std::uint8_t { to_gpu, to_cpu, error };
// Where a tensor is made that no device is named for. Operations run where their tensors are.
enum class Placement : std::uint8_t {
  as_written,  // on the CPU
  automatic,   // on the GPU, if there is one and the tensor is large
  force_gpu,   // on the GPU; without one on the CPU, with one message
  force_cpu,   // on the CPU
};

struct ExecutionOptions {
  Precision matmul = Precision::f32;  // f32 products are true f32 unless asked
  MixedDevices mixed_devices =
      MixedDevices::to_gpu;  // operands on two devices: move with a warning, or refuse
  Placement placement = Placement::as_written;
  std::int64_t gpu_threshold = 100'000;  // elements from which on a tensor counts as large
  // Equal programs give equal bits. Without, libraries may add up in whatever order is fastest; so
  // far that is the gradient of attention on CUDA.
  bool deterministic = true;
};

// The policy of this thread for as long as the object lives.
class VOLTA_API ExecutionContext : public Scope<ExecutionOptions> {
 public:
  explicit ExecutionContext(ExecutionOptions options);
  ~ExecutionContext();
};
VOLTA_API const ExecutionOptions& execution_options();

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
