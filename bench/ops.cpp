// Single operations as users write them: the time of each when repeated, in GB/s of the bytes it
// must move or in TFLOP/s, and the library's work for it. bench/peers/torch_ops.py measures the
// same rows in the same way.
#include <volta/volta.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shared_rows.h"

using namespace volta;
using namespace bench;

namespace {

// ---- Rows.

std::string by(std::int64_t rows, std::int64_t columns) {
  return std::to_string(rows) + "x" + std::to_string(columns);
}

Row add_row(std::int64_t n) {
  const double bytes = 12.0 * static_cast<double>(n);
  return {
      .name = "add " + short_count(n),
      .bytes = bytes,
      .limit = Limit::copy,
      .prepare = rotating(bytes, normals(2, {n}), [](const Inputs& in) { return in[0] + in[1]; })};
}

Tensor chain(const Inputs& in) {
  const Tensor &x = in[0], &y = in[1];
  return tanh(x * y + 0.5) * sigmoid(x) + y * y - x;
}
Row chain_row(std::int64_t n) {
  const double bytes = 12.0 * static_cast<double>(n);
  return {.name = "chain " + short_count(n),
          .bytes = bytes,
          .limit = Limit::copy,
          .prepare = rotating(bytes, normals(2, {n}), chain)};
}
Row cached_chain_row(std::int64_t n) {
  return {.name = "chain " + short_count(n) + " cached",
          .bytes = 12.0 * static_cast<double>(n),
          .prepare = staying(normals(2, {n}), chain)};
}

Row sum_row(std::int64_t n) {
  const double bytes = 4.0 * static_cast<double>(n);
  return {
      .name = "sum " + short_count(n),
      .bytes = bytes,
      .limit = Limit::read,
      .prepare = rotating(bytes, normals(1, {n}), [](const Inputs& in) { return in[0].sum(); })};
}

Row softmax_row(std::int64_t rows, std::int64_t columns) {
  const double bytes = 8.0 * static_cast<double>(rows * columns);
  return {.name = "softmax " + by(rows, columns),
          .bytes = bytes,
          .limit = Limit::copy,
          .prepare = rotating(bytes, normals(1, {rows, columns}),
                              [](const Inputs& in) { return softmax(in[0], 1); })};
}

// If `weighted`, there are a weight and a bias, which every row reads again.
Row layer_norm_row(std::int64_t rows, std::int64_t columns, bool weighted = true) {
  const double bytes = 8.0 * static_cast<double>(rows * columns + (weighted ? columns : 0));
  const auto make = [=](Device device) {
    Inputs inputs{normal({rows, columns}, device)};
    for (int i = 0; weighted && i < 2; ++i) inputs.push_back(normal({columns}, device));
    return inputs;
  };
  return {.name = (weighted ? "layer norm " : "plain layer norm ") + by(rows, columns),
          .bytes = bytes,
          .limit = Limit::copy,
          .prepare = rotating(bytes, make, [=](const Inputs& in) {
            return weighted ? layer_norm(in[0], {columns}, in[1], in[2])
                            : layer_norm(in[0], {columns});
          })};
}

Row column_sum_row(std::int64_t n) {
  const double bytes = 4.0 * static_cast<double>(n * n + n);
  return {.name = "column sum " + by(n, n),
          .bytes = bytes,
          .limit = Limit::read,
          .prepare =
              rotating(bytes, normals(1, {n, n}), [](const Inputs& in) { return in[0].sum(0); })};
}

Row transpose_row(std::int64_t n) {
  const double bytes = 8.0 * static_cast<double>(n * n);
  return {
      .name = "transpose " + by(n, n),
      .bytes = bytes,
      .limit = Limit::copy,
      .prepare = rotating(bytes, normals(1, {n, n}), [](const Inputs& in) { return in[0].t(); })};
}

Row tiny_row() {
  return {.name = "y = y + x, 16", .prepare = [](Device device) {
            auto y = std::make_shared<Tensor>(normal({16}, device));
            const Tensor x = full({16}, 1e-3, {.device = device}).eval();
            return [=] {
              *y = *y + x;
              y->eval();
            };
          }};
}

Row upload_row(std::int64_t mebibytes) {
  const std::int64_t n = mebibytes * (1 << 18);
  return {.name = "upload " + std::to_string(mebibytes) + " MiB",
          .bytes = 4.0 * static_cast<double>(n),
          .prepare = [=](Device device) {
            const auto values =
                std::make_shared<std::vector<float>>(normal({n}, Device::cpu()).to_vector<float>());
            const auto there = std::make_shared<Tensor>();
            return [=] { *there = from_vector(*values, {.device = device}); };
          }};
}

Row pinned_upload_row(std::int64_t mebibytes) {
  const std::int64_t n = mebibytes * (1 << 18);
  return {.name = "upload " + std::to_string(mebibytes) + " MiB pinned",
          .bytes = 4.0 * static_cast<double>(n),
          .prepare = [=](Device device) {
            const Tensor here = normal({n}, Device::cpu()).pin_memory();
            const auto there = std::make_shared<Tensor>();
            return [=] { *there = here.to(device).eval(); };
          }};
}

Row download_row(std::int64_t mebibytes) {
  const std::int64_t n = mebibytes * (1 << 18);
  return {.name = "download " + std::to_string(mebibytes) + " MiB",
          .bytes = 4.0 * static_cast<double>(n),
          .prepare = [=](Device device) {
            const Tensor there = normal({n}, device);
            const auto here = std::make_shared<Tensor>();
            // A clone has no copy on the host, unlike a value that was already downloaded.
            return [=] { *here = there.clone().to(Device::cpu()).eval(); };
          }};
}

constexpr std::int64_t kMillion = 1'000'000;

std::vector<Row> gpu_rows(Device device) {
  std::vector<Row> rows = {
      copy_row(100 * kMillion),   add_row(100 * kMillion),  add_row(10 * kMillion),
      chain_row(100 * kMillion),  chain_row(10 * kMillion), chain_row(kMillion),
      cached_chain_row(kMillion), sum_row(100 * kMillion),  sum_row(10 * kMillion)};
  for (const auto& [height, width] : {std::pair{8192, 8192}, {8192, 1024}, {1024, 50257}}) {
    rows.push_back(softmax_row(height, width));
  }
  for (const auto& [height, width] : {std::pair{8192, 8192}, {8192, 1024}, {1024, 50257}}) {
    rows.push_back(layer_norm_row(height, width));
    rows.push_back(layer_norm_row(height, width, false));
  }
  rows.push_back(column_sum_row(8192));
  rows.push_back(transpose_row(8192));
  for (const int n : {1024, 4096, 8192}) rows.push_back(matmul_row(Numbers::f32, n));
  if (device.type() == DeviceType::cuda) rows.push_back(matmul_row(Numbers::tf32, 4096));
  for (const int n : {4096, 8192}) rows.push_back(matmul_row(Numbers::bf16, n));
  rows.push_back(layer_product_row({.m = 128, .k = 784, .n = 1024, .transpose_b = true}));
  rows.push_back(layer_product_row({.m = 128, .k = 1024, .n = 1024}));
  rows.push_back(layer_product_row({.m = 1024, .k = 128, .n = 784, .transpose_a = true}));
  rows.push_back(layer_product_row({.m = 128, .k = 1024, .n = 10, .transpose_b = true}));
  rows.push_back(tiny_row());
  rows.push_back(upload_row(256));
  if (device.type() == DeviceType::cuda) rows.push_back(pinned_upload_row(1024));
  rows.push_back(download_row(256));
  return rows;
}

std::vector<Row> cpu_rows() {
  std::vector<Row> rows = {
      copy_row(100 * kMillion), add_row(100 * kMillion),    add_row(10 * kMillion),
      chain_row(10 * kMillion), chain_row(kMillion),        cached_chain_row(kMillion),
      sum_row(100 * kMillion),  sum_row(10 * kMillion),     softmax_row(4096, 1024),
      softmax_row(65536, 10),   layer_norm_row(4096, 1024), column_sum_row(4096),
      transpose_row(4096)};
  for (const int n : {256, 1024, 2048, 4096}) rows.push_back(matmul_row(Numbers::f32, n));
  for (const int n : {256, 1024, 2048, 4096}) rows.push_back(matmul_row(Numbers::bf16, n));
  rows.push_back(tiny_row());
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  return main_of({.name = "volta_ops", .kind = "ops", .gpu_rows = gpu_rows, .cpu_rows = cpu_rows},
                 argc, argv);
}
