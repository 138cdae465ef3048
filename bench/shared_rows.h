// Rows of both volta_ops and volta_layers: copies and matrix products.
#pragma once

#include <cstdint>
#include <string>

#include "direct_onednn.h"
#include "rows.h"

namespace bench {

inline std::string short_count(std::int64_t n) {
  return n % 1'000'000 == 0 ? std::to_string(n / 1'000'000) + "M" : std::to_string(n);
}

// Copies a slice. Unlike clone() this must copy, because the slice does not start at the buffer's
// first element.
inline Row copy_row(std::int64_t n) {
  constexpr std::int64_t kSkipped = 1024;
  const double bytes = 8.0 * static_cast<double>(n);
  return {.name = "copy " + short_count(n),
          .bytes = bytes,
          .limit = Limit::copy,
          .prepare = rotating(bytes, normals(1, {n + kSkipped}),
                              [=](const Inputs& in) { return in[0].narrow(0, kSkipped, n); })};
}

// The storage and multiplication format of numbers.
enum class Numbers { f32, tf32, bf16 };

inline const char* name_of(Numbers numbers) {
  constexpr const char* kNames[] = {"f32", "tf32", "bf16"};
  return kNames[static_cast<int>(numbers)];
}
inline volta::DType storage_of(Numbers numbers) {
  return numbers == Numbers::bf16 ? volta::DType::bf16 : volta::DType::f32;
}
inline volta::ExecutionOptions execution_of(Numbers numbers) {
  return {.matmul = numbers == Numbers::tf32 ? volta::Precision::tf32 : volta::Precision::f32};
}

// Sets oneDNN as the limit if it supports the same format.
inline void bound_by_onednn(Row& row, Numbers numbers, const auto& shape) {
  if (numbers == Numbers::tf32) return;
  row.limit = Limit::onednn;
  row.direct = [=] { return direct_call(shape); };
}

inline Row matmul_row(Numbers numbers, std::int64_t n) {
  const DirectProduct direct{.m = n, .k = n, .n = n, .bf16 = numbers == Numbers::bf16};
  Row row{.name = std::string("matmul ") + name_of(numbers) + " " + std::to_string(n),
          .operations = direct.operations(),
          .prepare = staying(normals(2, {n, n}, storage_of(numbers)), [=](const Inputs& in) {
            const volta::ExecutionContext scope(execution_of(numbers));
            return matmul(in[0], in[1]);
          })};
  bound_by_onednn(row, numbers, direct);
  return row;
}

// One product of a layer at a small batch, with the transposes of its forward or backward pass.
inline Row layer_product_row(const DirectProduct& p) {
  const Numbers numbers = p.bf16 ? Numbers::bf16 : Numbers::f32;
  const auto make = [=](Device device) {
    const volta::DType dtype = storage_of(numbers);
    return Inputs{normal(p.transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k}, device, dtype),
                  normal(p.transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n}, device, dtype)};
  };
  Row row{.name = std::string("matmul ") + name_of(numbers) + " " + std::to_string(p.m) + " x " +
                  std::to_string(p.k) + " x " + std::to_string(p.n) +
                  (p.transpose_a ? ", a^T" : "") + (p.transpose_b ? ", b^T" : ""),
          .operations = p.operations(),
          .prepare = staying(make, [=](const Inputs& in) {
            return matmul(p.transpose_a ? in[0].t() : in[0], p.transpose_b ? in[1].t() : in[1]);
          })};
  bound_by_onednn(row, numbers, p);
  return row;
}

}  // namespace bench
