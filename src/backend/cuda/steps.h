// A plan's steps, ready to run: kernels compiled, products planned, parameters laid out. `issue`
// enqueues one step for given addresses, in a compute stream or in a capture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "backend/common/sort_launches.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/bound.h"
#include "backend/cuda/context.h"
#include "backend/cuda/cudnn.h"
#include "backend/cuda/matmul.h"
#include "backend/cuda/modules.h"
#include "backend/steps.h"
#include "kernel/emit.h"

namespace volta::cuda {

// Addresses of the memory that kernels use besides the plan's buffers.
struct LaunchPlace {
  CUdeviceptr tables = 0, args = 0, error = 0;
  CUstream stream = nullptr;
};

class PreparedSteps {
 public:
  // The context must be current. Throws BackendError with the compiler's message.
  PreparedSteps(const Context& context, Modules& modules, MatmulLibrary& matmuls,
                CudnnLibrary& cudnn, const plan::PlanSteps& steps);

  // Finds the products for operands of this alignment. To be called before issue, outside any
  // capture.
  void bind(const Bound& bound);
  // The size of the tables of all horizontal kernels, which are stored at LaunchPlace::tables.
  std::size_t table_words() const { return table_words_; }
  void fill_tables(const Bound& bound, std::vector<std::uint64_t>& words) const;

  std::size_t size() const { return order_.size(); }
  // The plan's step number of each prepared step; a sort has several, and attention.
  std::span<const std::uint32_t> numbers() const { return numbers_; }
  // Enqueues all iterations of a loop.
  void issue(std::size_t step, const Bound& bound, const LaunchPlace& place) const;

  // The totals for issuing every step once.
  std::uint64_t launches() const { return launches_; }
  std::uint64_t library_calls() const { return library_calls_; }
  bool checks_indices() const { return checks_indices_; }
  // The last step that writes an output; nothing if none does.
  std::optional<std::size_t> last_writer(std::size_t output) const { return last_writers_[output]; }

 private:
  // The iterations in which a step runs: of a step outside loops, one.
  struct Iterations {
    std::int64_t first = 0, count = 1;
  };
  struct Launch {
    Modules::Loaded module;
    unsigned blocks = 0, threads = 0;  // 0 blocks: nothing to do
    unsigned shared_bytes = 0;         // of memory that the blocks share
    bool horizontal = false, has_args = false, has_error = false;
    std::vector<plan::BufferRef> buffers;
    std::uint32_t first_arg = 0;
    std::vector<std::byte> ints;  // the parameter struct
    // Horizontal: the segments that have blocks, and the offset of the table.
    struct Segment {
      std::int64_t first_block;
      plan::Binding binding;
    };
    std::vector<Segment> segments;
    std::size_t table = 0;
    std::size_t table_words = 0;  // of one iteration; the tables of the others follow
    Iterations iterations;
  };
  struct ProductStep {
    plan::MatmulStep step;
    std::shared_ptr<const Product> product;
    Alignment alignment;
    Launch generic;  // used if the library does not support the product
  };

  struct CudnnStep {
    plan::Step step;
    std::shared_ptr<const CudnnCall> call;
  };

  // What is issued in one go: steps, those of a loop part by part.
  struct Turn {
    struct Part {
      Iterations iterations;
      std::size_t begin, end;  // in steps_
    };
    std::vector<Part> parts;
  };

  // A kernel whose module is not known yet.
  struct Unloaded {
    std::size_t step;  // in steps_
    kernel::KernelSource source;
    std::shared_ptr<const kernel::Program> program;  // that the source was emitted from, if any
  };
  // Adds a step. Kernels whose modules are not known are added to `unloaded`.
  void add(const plan::Step& step, Iterations iterations, std::vector<Unloaded>& unloaded);
  void load(std::vector<Unloaded> unloaded);
  // Prepares a launch without its module.
  Launch lay_out(const plan::KernelStep& step, Iterations iterations);
  static Launch lay_out(const SortLaunch& part, const std::string& label);
  static Launch lay_out(const AttentionLaunch& part, const std::string& label);
  // Compiles the generic lowering of a product unless that is done already.
  void lower(ProductStep& product);
  void count_work();
  void issue_one(std::size_t step, const Bound& bound, const LaunchPlace& place) const;
  void issue_launch(const Launch& launch, const Bound& bound, const LaunchPlace& place) const;
  void issue_horizontal(const Launch& launch, std::int64_t iteration,
                        const LaunchPlace& place) const;

  const Context& context_;
  Modules& modules_;
  MatmulLibrary& matmuls_;
  CudnnLibrary& cudnn_;
  const std::size_t stream_number_;  // of the compute stream that it runs in
  std::vector<std::variant<Launch, ProductStep, CudnnStep>> steps_;
  std::vector<Iterations> iterations_;  // of each of them
  std::vector<Turn> order_;
  std::vector<std::uint32_t> numbers_;
  std::vector<std::optional<std::size_t>> last_writers_;
  std::size_t table_words_ = 0;
  bool checks_indices_ = false;
  std::uint64_t launches_ = 0, library_calls_ = 0;
};

}  // namespace volta::cuda
