// Runs kernel programs on the CPU backend: one over host memory, one against the reference
// interpreter, and one with several numbers of threads.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cpu_backend.h"
#include "kernel/kernel_samples.h"
#include "platform/parallel.h"

namespace volta::testing {

class ThreadCount {
 public:
  explicit ThreadCount(int count) : before_(platform::num_threads()) {
    platform::set_num_threads(count);
  }
  ~ThreadCount() { platform::set_num_threads(before_); }

 private:
  int before_;
};

// A plan of one kernel step; every slot is an output bound to host memory.
struct OneKernel {
  plan::PlanSteps steps;
  std::vector<Address> outputs;
  std::vector<std::uint64_t> args;

  explicit OneKernel(const kernel::Program& program) {
    steps.steps.emplace_back(
        plan::KernelStep{std::make_shared<const kernel::Program>(program), {}, "test"});
  }
  void bind(const std::vector<std::int64_t>& ints, const std::vector<void*>& buffers,
            const std::vector<std::uint64_t>& arguments) {
    plan::Binding binding{ints, {}, static_cast<std::uint32_t>(args.size())};
    for (void* buffer : buffers) {
      binding.buffers.push_back(
          {plan::BufferRef::Kind::Output, static_cast<std::uint32_t>(outputs.size()), 0});
      outputs.push_back({buffer, 0});
      steps.output_bytes.push_back(0);
    }
    args.insert(args.end(), arguments.begin(), arguments.end());
    steps.arg_words = static_cast<std::uint32_t>(args.size());
    std::get<plan::KernelStep>(steps.steps[0]).segments.push_back(std::move(binding));
  }
  // Returns the error that it reported, if any.
  std::optional<kernel::ErrorRecord> run(Backend& backend) const {
    const auto executable = backend.prepare(0, steps);
    executable->run({}, outputs, {}, args);
    auto error = executable->take_error();
    EXPECT_FALSE(executable->take_error().has_value()) << "taking an error clears it";
    return error;
  }
};

inline void check_sample(const Sample& sample, Backend& backend) {
  SCOPED_TRACE(sample.name);
  std::vector<std::vector<Bytes>> expected, actual;
  std::vector<OneKernel> runs;
  kernel::ErrorRecord want{};
  for (const SampleBinding& binding : sample.bindings) {
    expected.push_back(make_buffers(sample, binding));
    actual.push_back(expected.back());
    run_reference(sample.program, binding.ints, pointers(expected.back()), binding.args.data(),
                  &want);
    if (runs.empty() || !sample.program.schedule.horizontal) runs.emplace_back(sample.program);
    runs.back().bind(binding.ints, pointers(actual.back()), binding.args);
  }
  std::optional<kernel::ErrorRecord> error;
  for (const OneKernel& run : runs) {
    const auto left = run.run(backend);
    if (!error) error = left;
  }
  for (std::size_t n = 0; n < sample.bindings.size(); ++n) {
    EXPECT_EQ(compare(sample, sample.bindings[n], expected[n], actual[n]), "") << "binding " << n;
  }
  EXPECT_EQ(error.has_value(), sample.bad_index);
  if (error && sample.bad_index) {
    EXPECT_EQ(error->site, want.site);
    EXPECT_EQ(error->high, want.high);
    EXPECT_EQ(error->index, want.index);
  }
}

// Runs a program with each thread count on the same inputs; all slots must have the same bits.
inline void expect_same_bits(const Sample& sample) {
  SCOPED_TRACE(sample.name);
  for (const SampleBinding& binding : sample.bindings) {
    std::vector<std::vector<Bytes>> results;
    for (const int threads : {1, 2, 4}) {
      const ThreadCount count(threads);
      const auto backend = make_cpu_backend();
      results.push_back(make_buffers(sample, binding));
      OneKernel run(sample.program);
      run.bind(binding.ints, pointers(results.back()), binding.args);
      run.run(*backend);
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

inline Sample resized(Sample sample, std::vector<std::int64_t> ints,
                      std::vector<std::int64_t> elements) {
  sample.bindings.resize(1);
  sample.bindings[0].ints = std::move(ints);
  sample.bindings[0].elements = std::move(elements);
  return sample;
}

}  // namespace volta::testing
