// Every sample program must give the results of the reference interpreter.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/opencl/opencl_backend_testing.h"
#include "kernel/kernel_reference.h"
#include "kernel/kernel_samples.h"
#include "volta/error.h"

namespace volta::testing {
namespace {

// Runs all bindings of a sample as one plan and compares each with the reference.
void check_sample(Backend& backend, const Sample& sample) {
  plan::PlanSteps steps;
  plan::KernelStep step = kernel_step(sample.program, {}, sample.name);
  std::vector<std::uint64_t> args;
  std::vector<std::vector<Bytes>> inputs;
  std::vector<std::vector<Ref>> refs;
  std::vector<Address> leaves, outputs;
  std::size_t total = 4096;
  for (const SampleBinding& binding : sample.bindings) {
    inputs.push_back(make_buffers(sample, binding));
    for (const Bytes& bytes : inputs.back()) total += bytes.size() + 256;
  }
  Chunk chunk(backend, total);
  for (std::size_t n = 0; n < sample.bindings.size(); ++n) {
    std::vector<Ref>& buffers = refs.emplace_back();
    for (std::size_t slot = 0; slot < sample.program.slots.size(); ++slot) {
      const bool leaf = sample.program.slots[slot].read;
      auto& list = leaf ? leaves : outputs;
      buffers.push_back(
          {leaf ? Ref::Kind::Leaf : Ref::Kind::Output, static_cast<std::uint32_t>(list.size()), 0});
      list.push_back(chunk.put(inputs[n][slot]));
    }
    const SampleBinding& binding = sample.bindings[n];
    step.segments.push_back({binding.ints, buffers, static_cast<std::uint32_t>(args.size())});
    args.insert(args.end(), binding.args.begin(), binding.args.end());
  }
  steps.arg_words = static_cast<std::uint32_t>(args.size());
  steps.steps.emplace_back(std::move(step));
  const auto executable = backend.prepare(0, steps);
  executable->run(leaves, outputs, {}, args);

  kernel::ErrorRecord expected_error;
  for (std::size_t n = 0; n < sample.bindings.size(); ++n) {
    const SampleBinding& binding = sample.bindings[n];
    std::vector<Bytes> actual;
    for (std::size_t slot = 0; slot < inputs[n].size(); ++slot) {
      const Ref ref = refs[n][slot];
      const Address address = ref.kind == Ref::Kind::Leaf ? leaves[ref.index] : outputs[ref.index];
      actual.push_back(fetch(backend, address, inputs[n][slot].size()));
    }
    run_reference(sample.program, binding.ints, pointers(inputs[n]), binding.args.data(),
                  &expected_error);
    EXPECT_EQ(compare(sample, binding, inputs[n], actual), "") << "binding " << n;
  }
  const auto error = executable->take_error();
  ASSERT_EQ(error.has_value(), sample.bad_index);
  if (error) {
    EXPECT_EQ(error->site, expected_error.site);
    EXPECT_EQ(error->high, expected_error.high);
    EXPECT_GE(error->index, expected_error.high);
    EXPECT_FALSE(executable->take_error().has_value()) << "taking an error clears it";
  }
}

class OpenClSampleTest : public OpenClBackendTest, public ::testing::WithParamInterface<Sample> {};

TEST_P(OpenClSampleTest, EqualsTheReference) { check_sample(backend(), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Samples, OpenClSampleTest, ::testing::ValuesIn(samples()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace volta::testing
