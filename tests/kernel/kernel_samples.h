// All handwritten kernel programs with their data. `samples()` lists them; `make_buffers` fills the
// slots of a binding; `compare` checks against the reference.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernel/kernel_reference.h"
#include "kernel/kernel_samples_map.h"
#include "kernel/kernel_samples_row.h"
#include "kernel/philox.h"

namespace volta::testing {

inline std::vector<Sample> samples() {
  std::vector<Sample> all;
  for (const int vec : {1, 4}) {
    all.push_back(elementwise_sample(vec));
    all.push_back(storage_types_sample(vec * 2));
    all.push_back(adam_sample(vec, false));
    all.push_back(adam_sample(vec, true));
  }
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    all.push_back(all_ops_sample(dtype));
    all.push_back(reductions_sample(dtype, 1));
    all.push_back(reductions_sample(dtype, 32));
    all.push_back(reductions_sample(dtype, 256));
  }
  all.push_back(reductions_sample(DType::f32, 8));
  all.push_back(reductions_sample(DType::f32, 64, false, 8));
  for (const int lanes : {1, 8, 64}) all.push_back(three_reds_sample(lanes));
  all.push_back(reductions_sample(DType::f32, 1, true));
  all.push_back(reductions_sample(DType::f32, 32, true));
  all.push_back(reductions_sample(DType::f32, 256, true));
  for (int n = 0; n < kDTypeCount; ++n) all.push_back(casts_sample(static_cast<DType>(n)));
  for (const auto& [lanes, items] :
       {std::pair{1, 0}, {4, 0}, {32, 0}, {32, 4}, {256, 0}, {256, 4}, {1024, 1}}) {
    all.push_back(softmax_sample(lanes, items));
  }
  all.push_back(softmax_sample(128, 2, true));
  for (const auto& [lanes, items] : {std::pair{1, 0}, {32, 0}, {64, 4}}) {
    all.push_back(layer_norm_sample(lanes, items));
    all.push_back(cross_entropy_sample(lanes, items));
  }
  all.push_back(column_sum_sample());
  for (const int lanes : {1, 32, 256}) {
    all.push_back(scan_sample(DType::f32, lanes, false));
    all.push_back(scan_sample(DType::f32, lanes, true));
    all.push_back(scan_sample(DType::i64, lanes, true));
  }
  all.push_back(checked_sums_sample(8, false));
  all.push_back(checked_sums_sample(32, true));
  all.push_back(segments_sample(DType::f32));
  all.push_back(segments_sample(DType::i32));
  all.push_back(gather_sample(DType::i32, false));
  all.push_back(gather_sample(DType::i64, false));
  all.push_back(gather_sample(DType::i64, true));
  for (const int vec : {1, 2, 4, 8}) all.push_back(dropout_sample(vec));
  all.push_back(pad_sample());
  for (const auto& [lanes, items] : {std::pair{1, 0}, {32, 4}, {128, 0}}) {
    all.push_back(normalize_rows_in_place_sample(lanes, items, false));
    all.push_back(normalize_rows_in_place_sample(lanes, items, true));
  }
  all.push_back(running_state_sample(1));
  all.push_back(running_state_sample(16));
  all.push_back(running_state_sample(128));
  all.push_back(scalar_sample());
  all.push_back(index_sample());
  return all;
}

using Bytes = std::vector<std::byte>;

// Deterministic contents for the slots of a binding: floats in [-2, 2), integers in [0,
// index_high), 0 or 1. The memory is a little larger than needed, so that empty slots have an
// address. The rest of it is NaN for floats and must not change.
inline std::vector<Bytes> make_buffers(const Sample& sample, const SampleBinding& binding) {
  std::vector<Bytes> buffers;
  for (std::size_t n = 0; n < sample.program.slots.size(); ++n) {
    const DType dtype = sample.program.slots[n].dtype;
    Bytes bytes((static_cast<std::size_t>(binding.elements[n]) + 1) * size_of(dtype),
                std::byte{0xff});
    for (std::int64_t e = 0; e < binding.elements[n]; ++e) {
      const std::uint32_t word = kernel::philox(n + 1, static_cast<std::uint64_t>(e))[0];
      Value value{.f = std::ldexp(word >> 8, -22) - 2,
                  .i = static_cast<std::int64_t>(word) % sample.index_high};
      if (dtype == DType::boolean) value.i = word & 1;
      if (sample.with_nans && word % 101 == 0) value.f = std::numeric_limits<double>::quiet_NaN();
      write_element(bytes.data(), e, dtype, value);
    }
    buffers.push_back(std::move(bytes));
  }
  return buffers;
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

inline std::vector<void*> pointers(std::vector<Bytes>& buffers) {
  std::vector<void*> all;
  for (Bytes& bytes : buffers) all.push_back(bytes.data());
  return all;
}

// Describes the first difference between the elements of two bindings' slots; empty if there is
// none.
inline std::string compare(const Sample& sample, const SampleBinding& binding,
                           const std::vector<Bytes>& expected, const std::vector<Bytes>& actual) {
  for (std::size_t n = 0; n < sample.program.slots.size(); ++n) {
    const DType dtype = sample.program.slots[n].dtype;
    for (std::int64_t e = 0; e < binding.elements[n]; ++e) {
      const Value want = read_element(expected[n].data(), e, dtype);
      const Value got = read_element(actual[n].data(), e, dtype);
      bool same = want.i == got.i;
      if (is_floating(dtype)) {
        const double error = std::fabs(want.f - got.f);
        same = want.f == got.f || (std::isnan(want.f) && std::isnan(got.f)) ||
               error <= sample.tolerance * std::fmax(1, std::fabs(want.f));
      }
      if (!same) {
        std::ostringstream message;
        message << sample.name << ": slot " << n << " element " << e << ": expected "
                << (is_floating(dtype) ? want.f : static_cast<double>(want.i)) << ", got "
                << (is_floating(dtype) ? got.f : static_cast<double>(got.i));
        return message.str();
      }
    }
    const std::size_t end = static_cast<std::size_t>(binding.elements[n]) * size_of(dtype);
    if (!std::equal(expected[n].begin() + static_cast<std::ptrdiff_t>(end), expected[n].end(),
                    actual[n].begin() + static_cast<std::ptrdiff_t>(end)))
      return sample.name + ": something was written past the end of slot " + std::to_string(n);
  }
  return {};
}

}  // namespace volta::testing
