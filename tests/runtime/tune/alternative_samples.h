// Samples with every schedule that the tuner may try for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernel/kernel_samples.h"
#include "kernel/vectors.h"
#include "plan/codegen/schedule.h"
#include "runtime/tune/alternatives.h"

namespace volta::testing {

inline plan::Binding numbers(const SampleBinding& binding) {
  return {.ints = binding.ints, .buffers = {}};
}

inline std::string bare_text(kernel::Program program) {
  program.schedule = {.kind = program.schedule.kind, .horizontal = program.schedule.horizontal};
  return kernel::to_text(program);
}

// y[i, j] = x[j, i] + z[i, j].
inline Sample turned_sample(std::int64_t m, std::int64_t n) {
  Build b;
  const auto rows = b.param(), columns = b.param();
  const int i = b.axis(rows), j = b.axis(columns);
  const int x = b.slot(DType::f32), z = b.slot(DType::f32), y = b.slot(DType::f32);
  const auto along = Build::at({{i, columns}, {j, Build::one()}});
  b.store(y, along,
          b.op(Op::add, b.load(x, Build::at({{i, Build::one()}, {j, rows}})), b.load(z, along)));
  return {.name = "turned",
          .program = b.finish(map_schedule()),
          .bindings = {{{m, n}, {m * n, m * n, m * n}, {}}}};
}

// Gives the sample the schedule that the planner would choose.
inline Sample planned(Sample sample, std::vector<SampleBinding> bindings, const char* suffix) {
  sample.name += suffix;
  sample.bindings = std::move(bindings);
  const SampleBinding& first = sample.bindings.front();
  const std::int64_t largest = *std::ranges::max_element(first.elements);
  sample.program.schedule = plan::choose_schedule(sample.program, first.ints, largest, true);
  return sample;
}

inline std::vector<Sample> alternative_subjects() {
  std::vector<Sample> all;
  // Samples of one program have the same schedules, with one lane and with several.
  std::set<std::string> seen;
  for (Sample& sample : samples()) {
    const bool alone = sample.program.schedule.lanes == 1;
    if (seen.insert(bare_text(sample.program) + (alone ? "alone" : "shared")).second)
      all.push_back(std::move(sample));
  }
  const auto rows_of = [](std::int64_t rows, std::int64_t length) {
    return SampleBinding{{rows, length}, {rows * length, rows * length}, {}};
  };
  all.push_back(planned(softmax_sample(32, 0), {rows_of(17, 4099)}, "_4099"));
  all.push_back(planned(
      layer_norm_sample(32, 0),
      {{{2, 20480}, {40960, 20480, 20480, 40960, 2, 2}, {float_arg(1.0 / 20480), float_arg(1e-5)}}},
      "_20480"));
  all.push_back(planned(column_sum_sample(), {{{6, 1 << 17}, {6 << 17, 1 << 17}, {}}}, "_wide"));
  all.push_back(planned(turned_sample(160, 192), {turned_sample(160, 192).bindings}, "_tiles"));
  all.push_back(planned(elementwise_sample(1),
                        {{{512, 1024}, {1 << 19, 1024, 1 << 19, 1 << 19}, {float_arg(0.5)}},
                         {{7, 13}, {91, 13, 91, 91}, {float_arg(0.5)}}},
                        "_large"));
  return all;
}

// Every schedule that is an alternative for some binding of the sample, with the bindings that
// allow it.
inline std::vector<Sample> alternative_samples(const Sample& sample) {
  std::vector<std::vector<plan::Binding>> segments;
  for (const SampleBinding& binding : sample.bindings) {
    if (!sample.program.schedule.horizontal || segments.empty()) segments.emplace_back();
    segments.back().push_back(numbers(binding));
  }
  std::vector<Sample> all;
  for (const std::vector<plan::Binding>& some : segments) {
    for (const kernel::Schedule& schedule : plan::alternatives(sample.program, some)) {
      Sample variant = sample;
      variant.program.schedule = schedule;
      const bool known = std::ranges::any_of(
          all, [&](const Sample& other) { return other.program.schedule == schedule; });
      if (known) continue;
      if (!schedule.horizontal) {
        std::erase_if(variant.bindings, [&](const SampleBinding& binding) {
          return !kernel::schedule_allows(variant.program, binding.ints);
        });
      }
      all.push_back(std::move(variant));
    }
  }
  return all;
}

}  // namespace volta::testing
