// Single operations, as users write them: what each takes back to back, in GB/s of the bytes it
// must move or in TFLOP/s, and what the library did for it. bench/peers/torch_ops.py measures the
// same rows the same way.
#include <volta/volta.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host_limits.h"
#include "measuring.h"

using namespace volta;
using bench::UsageError;

namespace {

constexpr const char* kUsage =
    "usage: volta_ops [--device cpu|cuda:0|opencl:0] [--filter TEXT] [--sizes cpu|gpu]\n"
    "                 [--processor-time] [--json FILE]\n"
    "  --filter TEXT      only rows whose name contains the text\n"
    "  --sizes cpu|gpu    the sizes of the other kind of device\n"
    "  --processor-time   of one thread, instead of wall-clock time: for a CPU that others use;\n"
    "                     needs VOLTA_NUM_THREADS=1 and OMP_NUM_THREADS=1\n";

struct Options {
  Device device = Device::cpu();
  std::string filter, json;
  bool gpu_sizes = false;
};

Options parse_options(int argc, char** argv) {
  Options options;
  std::string device = "best", sizes;
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i];
    if (option == "--processor-time") {
      bench::Clock::processor_time = true;
      continue;
    }
    if (i + 1 == argc) throw UsageError("unknown option or missing value: " + option);
    const std::string value = argv[++i];
    if (option == "--device") {
      device = value;
    } else if (option == "--filter") {
      options.filter = value;
    } else if (option == "--sizes" && (value == "cpu" || value == "gpu")) {
      sizes = value;
    } else if (option == "--json") {
      options.json = value;
    } else {
      throw UsageError("unknown option, or not for it: " + option.append(" ").append(value));
    }
  }
  options.device = Device::parse(device);
  if (bench::Clock::processor_time && (num_threads() != 1 || options.device.is_gpu())) {
    throw UsageError("--processor-time needs one thread of a CPU device");
  }
  options.gpu_sizes = sizes.empty() ? options.device.is_gpu() : sizes == "gpu";
  return options;
}

// What bounds a row on the host.
enum class Limit { none, copy, read, direct_product };

// One line of the table. `prepare` makes the data on the device and returns the step to repeat,
// which submits one evaluation and does not wait.
struct Row {
  std::string name;
  double bytes = 0;  // that must be read and written; transfers: that cross
  double operations = 0;
  Limit limit = Limit::none;
  std::int64_t size = 0;  // of a product
  std::function<std::function<void()>(Device)> prepare;
};

// ---- Steps.

using Inputs = std::vector<Tensor>;
using Apply = std::function<Tensor(const Inputs&)>;

// So many bytes are walked through before a buffer is seen again: more than any cache holds.
constexpr double kRotatedBytes = 256e6;

// result = apply(inputs), evaluated; over several sets of inputs and results in turn, so that none
// is still in a cache. `bytes` is that of one set.
std::function<std::function<void()>(Device)> rotating(double bytes,
                                                      const std::function<Inputs(Device)>& make,
                                                      const Apply& apply) {
  return [=](Device device) {
    struct Set {
      Inputs inputs;
      Tensor result;
    };
    auto sets = std::make_shared<std::vector<Set>>();
    do {
      sets->push_back({make(device), {}});
    } while (bytes * static_cast<double>(sets->size()) < kRotatedBytes);
    return [sets, apply, next = std::size_t{0}]() mutable {
      Set& set = (*sets)[next];
      next = next + 1 == sets->size() ? 0 : next + 1;
      set.result = apply(set.inputs);
      set.result.eval();
    };
  };
}

// The same inputs every time, caches and all.
std::function<std::function<void()>(Device)> staying(const std::function<Inputs(Device)>& make,
                                                     const Apply& apply) {
  return rotating(kRotatedBytes, make, apply);
}

Tensor normal(const Shape& shape, Device device) { return randn(shape, {.device = device}).eval(); }

// `count` tensors of the shape.
std::function<Inputs(Device)> normals(int count, const Shape& shape) {
  return [=](Device device) {
    Inputs inputs;
    for (int i = 0; i < count; ++i) inputs.push_back(normal(shape, device));
    return inputs;
  };
}

// ---- Rows.

std::string short_count(std::int64_t n) {
  return n % 1'000'000 == 0 ? std::to_string(n / 1'000'000) + "M" : std::to_string(n);
}
std::string by(std::int64_t rows, std::int64_t columns) {
  return std::to_string(rows) + "x" + std::to_string(columns);
}

// A slice, which unlike clone() has to be copied: its elements start past the buffer's first.
Row copy_row(std::int64_t n) {
  constexpr std::int64_t kSkipped = 1024;
  const double bytes = 8.0 * static_cast<double>(n);
  return {"copy " + short_count(n),
          bytes,
          0,
          Limit::copy,
          0,
          rotating(bytes, normals(1, {n + kSkipped}),
                   [=](const Inputs& in) { return in[0].narrow(0, kSkipped, n); })};
}

Row add_row(std::int64_t n) {
  const double bytes = 12.0 * static_cast<double>(n);
  return {"add " + short_count(n),
          bytes,
          0,
          Limit::copy,
          0,
          rotating(bytes, normals(2, {n}), [](const Inputs& in) { return in[0] + in[1]; })};
}

Tensor chain(const Inputs& in) {
  const Tensor &x = in[0], &y = in[1];
  return tanh(x * y + 0.5) * sigmoid(x) + y * y - x;
}
Row chain_row(std::int64_t n) {
  const double bytes = 12.0 * static_cast<double>(n);
  return {
      "chain " + short_count(n), bytes, 0, Limit::copy, 0, rotating(bytes, normals(2, {n}), chain)};
}
Row cached_chain_row(std::int64_t n) {
  return {"chain " + short_count(n) + " cached", 12.0 * static_cast<double>(n), 0, Limit::none, 0,
          staying(normals(2, {n}), chain)};
}

Row sum_row(std::int64_t n) {
  const double bytes = 4.0 * static_cast<double>(n);
  return {"sum " + short_count(n),
          bytes,
          0,
          Limit::read,
          0,
          rotating(bytes, normals(1, {n}), [](const Inputs& in) { return in[0].sum(); })};
}

Row softmax_row(std::int64_t rows, std::int64_t columns) {
  const double bytes = 8.0 * static_cast<double>(rows * columns);
  return {"softmax " + by(rows, columns),
          bytes,
          0,
          Limit::copy,
          0,
          rotating(bytes, normals(1, {rows, columns}),
                   [](const Inputs& in) { return softmax(in[0], 1); })};
}

// `weighted`: with a weight and a bias, which every row reads again.
Row layer_norm_row(std::int64_t rows, std::int64_t columns, bool weighted = true) {
  const double bytes = 8.0 * static_cast<double>(rows * columns + (weighted ? columns : 0));
  const auto make = [=](Device device) {
    Inputs inputs{normal({rows, columns}, device)};
    for (int i = 0; weighted && i < 2; ++i) inputs.push_back(normal({columns}, device));
    return inputs;
  };
  return {(weighted ? "layer norm " : "plain layer norm ") + by(rows, columns),
          bytes,
          0,
          Limit::copy,
          0,
          rotating(bytes, make, [=](const Inputs& in) {
            return weighted ? layer_norm(in[0], {columns}, in[1], in[2])
                            : layer_norm(in[0], {columns});
          })};
}

// Training, forward and backward: statistics, result, sums of the gradient, gradient; running
// statistics and parameters besides. Images are read four times, gradients twice, two are written.
Row batch_norm_row(std::int64_t n, std::int64_t channels, std::int64_t side) {
  const Shape images{n, channels, side, side};
  const double bytes = 32.0 * static_cast<double>(images.numel());
  const auto make = [=](Device device) {
    Inputs inputs{normal(images, device), normal(images, device)};
    for (int i = 0; i < 4; ++i) inputs.push_back(ones({channels}, {.device = device}).clone());
    for (const std::size_t leaf : {0, 2, 3}) inputs[leaf].set_requires_grad();
    return inputs;
  };
  return {"batch norm + relu, both ways " + by(n, channels) + "x" + by(side, side),
          bytes,
          0,
          Limit::copy,
          0,
          rotating(bytes, make, [](const Inputs& in) {
            for (const std::size_t leaf : {0, 2, 3}) in[leaf].zero_grad();
            const Tensor y =
                batch_norm(in[0], in[4], in[5], in[2], in[3], {.training = true}).relu();
            y.backward(in[1]);
            return y;
          })};
}

Row column_sum_row(std::int64_t n) {
  const double bytes = 4.0 * static_cast<double>(n * n + n);
  return {"column sum " + by(n, n),
          bytes,
          0,
          Limit::read,
          0,
          rotating(bytes, normals(1, {n, n}), [](const Inputs& in) { return in[0].sum(0); })};
}

Row transpose_row(std::int64_t n) {
  const double bytes = 8.0 * static_cast<double>(n * n);
  return {"transpose " + by(n, n),
          bytes,
          0,
          Limit::copy,
          0,
          rotating(bytes, normals(1, {n, n}), [](const Inputs& in) { return in[0].t(); })};
}

enum class Product { f32, tf32, bf16 };

Row matmul_row(Product kind, std::int64_t n) {
  const char* names[] = {"f32", "tf32", "bf16"};
  const double cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  const auto make = [=](Device device) {
    Inputs inputs;
    for (int i = 0; i < 2; ++i) {
      const Tensor values = normal({n, n}, device);
      inputs.push_back(kind == Product::bf16 ? values.to(DType::bf16).eval() : values);
    }
    return inputs;
  };
  const Precision precision = kind == Product::tf32 ? Precision::tf32 : Precision::f32;
  return {"matmul " + std::string(names[static_cast<int>(kind)]) + " " + std::to_string(n),
          0,
          2 * cube,
          kind == Product::f32 ? Limit::direct_product : Limit::none,
          n,
          staying(make, [=](const Inputs& in) {
            const ExecutionContext scope({.matmul = precision});
            return matmul(in[0], in[1]);
          })};
}

// One of the products of a layer at a small batch; transposes as in its forward and backward.
Row layer_product_row(std::int64_t m, std::int64_t k, std::int64_t n, bool transpose_a,
                      bool transpose_b) {
  const auto make = [=](Device device) {
    return Inputs{normal(transpose_a ? Shape{k, m} : Shape{m, k}, device),
                  normal(transpose_b ? Shape{n, k} : Shape{k, n}, device)};
  };
  return {"matmul f32 " + std::to_string(m) + " x " + std::to_string(k) + " x " +
              std::to_string(n) + (transpose_a ? ", a^T" : "") + (transpose_b ? ", b^T" : ""),
          0,
          2 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n),
          Limit::none,
          0,
          staying(make, [=](const Inputs& in) {
            return matmul(transpose_a ? in[0].t() : in[0], transpose_b ? in[1].t() : in[1]);
          })};
}

Row tiny_row() {
  return {"y = y + x, 16", 0, 0, Limit::none, 0, [](Device device) {
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
  return {"upload " + std::to_string(mebibytes) + " MiB",
          4.0 * static_cast<double>(n),
          0,
          Limit::none,
          0,
          [=](Device device) {
            const auto values =
                std::make_shared<std::vector<float>>(normal({n}, Device::cpu()).to_vector<float>());
            const auto there = std::make_shared<Tensor>();
            return [=] { *there = from_vector(*values, {.device = device}); };
          }};
}

Row pinned_upload_row(std::int64_t mebibytes) {
  const std::int64_t n = mebibytes * (1 << 18);
  return {"upload " + std::to_string(mebibytes) + " MiB pinned",
          4.0 * static_cast<double>(n),
          0,
          Limit::none,
          0,
          [=](Device device) {
            const Tensor here = normal({n}, Device::cpu()).pin_memory();
            const auto there = std::make_shared<Tensor>();
            return [=] { *there = here.to(device).eval(); };
          }};
}

Row download_row(std::int64_t mebibytes) {
  const std::int64_t n = mebibytes * (1 << 18);
  return {"download " + std::to_string(mebibytes) + " MiB",
          4.0 * static_cast<double>(n),
          0,
          Limit::none,
          0,
          [=](Device device) {
            const Tensor there = normal({n}, device);
            const auto here = std::make_shared<Tensor>();
            // A clone is a value that has not been looked at: those keep their copy on the host.
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
  rows.push_back(batch_norm_row(256, 64, 32));
  rows.push_back(column_sum_row(8192));
  rows.push_back(transpose_row(8192));
  for (const int n : {1024, 4096, 8192}) rows.push_back(matmul_row(Product::f32, n));
  if (device.type() == DeviceType::cuda) rows.push_back(matmul_row(Product::tf32, 4096));
  for (const int n : {4096, 8192}) rows.push_back(matmul_row(Product::bf16, n));
  rows.push_back(layer_product_row(128, 784, 1024, false, true));
  rows.push_back(layer_product_row(128, 1024, 1024, false, false));
  rows.push_back(layer_product_row(1024, 128, 784, true, false));
  rows.push_back(layer_product_row(128, 1024, 10, false, true));
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
  rows.push_back(batch_norm_row(64, 64, 32));
  for (const int n : {256, 1024, 2048, 4096}) rows.push_back(matmul_row(Product::f32, n));
  rows.push_back(matmul_row(Product::bf16, 1024));
  rows.push_back(tiny_row());
  return rows;
}

// ---- Measuring.

struct Result : bench::Work {
  const Row* row = nullptr;
  bench::Timing timing;
  double limit_ms = 0;  // what the host would need at best; 0: not measured
};

// Repeats passes until one builds, compiles and allocates nothing and replays as many graphs as the
// one before; returns the seconds of an evaluation.
double warm_up(const std::function<void()>& step, Device device) {
  constexpr int kMostPasses = 12;
  constexpr std::int64_t kFewestSteps = 2, kMostSteps = 64;  // the most sets of a rotation is 49
  constexpr double kPassSeconds = 0.2;
  double estimate = 0, replayed_before = -1;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    const Counters before = counters();
    const auto start = bench::Clock::now();
    std::int64_t steps = 0;
    while (steps < kFewestSteps ||
           (steps < kMostSteps && bench::seconds_since(start) < kPassSeconds)) {
      step();
      ++steps;
    }
    synchronize(device);
    estimate = bench::seconds_since(start) / static_cast<double>(steps);
    const Counters after = counters();
    const auto total = [&](std::uint64_t Counters::* field) {
      return bench::difference(before, after, field);
    };
    const double replayed =
        static_cast<double>(total(&Counters::graph_launches)) / static_cast<double>(steps);
    const bool steady = total(&Counters::plans_built) == 0 && total(&Counters::compilations) == 0 &&
                        total(&Counters::allocations) == 0 && replayed == replayed_before;
    if (steady) break;
    replayed_before = replayed;
  }
  return estimate;
}

Result measure(const Row& row, Device device) {
  Result result;
  result.row = &row;
  const std::function<void()> step = row.prepare(device);
  const double estimate = warm_up(step, device);
  const Counters before = counters();
  result.timing = bench::time_blocks(
      step, [&] { synchronize(device); }, bench::block_count(estimate),
      bench::block_steps(estimate));
  const Counters after = counters();
  static_cast<bench::Work&>(result) = bench::work_between(before, after, result.timing.steps);
  if (result.launches + result.library_calls + result.transfers < 1) {
    throw Error(row.name + ": evaluated without a kernel, a library call or a transfer");
  }
  return result;
}

// Beside the row, so that both see the same load of the machine.
double limit_ms(const Row& row, bench::HostLimits& host) {
  switch (row.limit) {
    case Limit::copy:
      return row.bytes / host.copy_rate() * 1e3;
    case Limit::read:
      return row.bytes / host.read_rate() * 1e3;
    case Limit::direct_product:
      return bench::direct_product_ms(row.size);
    case Limit::none:
      break;
  }
  return 0;
}

const char* limit_name(Limit limit) {
  switch (limit) {
    case Limit::copy:
      return "copy";
    case Limit::read:
      return "read";
    case Limit::direct_product:
      return "oneDNN";
    case Limit::none:
      break;
  }
  return "";
}

// ---- Reports.

double gb_per_s(const Result& r) { return r.row->bytes / r.timing.median_ms * 1e-6; }
double tflop_per_s(const Result& r) { return r.row->operations / r.timing.median_ms * 1e-9; }

bench::JsonObject json_of(const Result& r) {
  bench::JsonObject json;
  json.add("workload", r.row->name).add("variant", "volta").add(r.timing);
  json.add("bytes", r.row->bytes).add("operations", r.row->operations);
  if (r.row->bytes > 0) json.add("gb_per_s", gb_per_s(r));
  if (r.row->operations > 0) json.add("tflop_per_s", tflop_per_s(r));
  if (r.limit_ms > 0) {
    json.add("limit", limit_name(r.row->limit)).add("limit_ms", r.limit_ms);
    json.add("of_limit", r.limit_ms / r.timing.median_ms);
  }
  json.add("launches", r.launches).add("library_calls", r.library_calls);
  json.add("graph_launches", r.graph_launches).add("submits", r.submits);
  json.add("transfers", r.transfers).add("plans_built", r.plans_built);
  return json.add("compilations", r.compilations).add("allocations", r.allocations);
}

void print_header(const Options& options) {
  std::printf("volta %s on %s (%s), %d CPU threads%s\n", version(),
              to_string(options.device).c_str(), options.device.name().c_str(), num_threads(),
              bench::Clock::processor_time ? ", processor time" : "");
  std::printf("%-24s %12s %12s %16s %14s %8s %8s %7s %6s %6s\n", "row", "median us", "min us",
              "rate", "of limit", "kernels", "library", "graphs", "plans", "allocs");
}

void print(const Result& r) {
  char rate[32] = "", limit[32] = "";
  if (r.row->bytes > 0) {
    std::snprintf(rate, sizeof rate, "%.1f GB/s", gb_per_s(r));
  } else if (r.row->operations > 0) {
    std::snprintf(rate, sizeof rate, "%.3f TFLOP/s", tflop_per_s(r));
  }
  if (r.limit_ms > 0) {
    std::snprintf(limit, sizeof limit, "%.0f%% %s", r.limit_ms / r.timing.median_ms * 100,
                  limit_name(r.row->limit));
  }
  std::printf("%-24s %12.2f %12.2f %16s %14s %8.2f %8.2f %7.2f %6llu %6llu\n", r.row->name.c_str(),
              r.timing.median_ms * 1e3, r.timing.min_ms * 1e3, rate, limit, r.launches,
              r.library_calls, r.graph_launches, static_cast<unsigned long long>(r.plans_built),
              static_cast<unsigned long long>(r.allocations));
  std::fflush(stdout);
}

// False if a row failed; the others are measured all the same.
bool run(const Options& options, const std::string& command) {
  manual_seed(0);
  const std::vector<Row> rows = options.gpu_sizes ? gpu_rows(options.device) : cpu_rows();
  std::optional<bench::HostLimits> host;
  if (options.device.is_cpu()) host.emplace(num_threads());
  print_header(options);
  std::vector<bench::JsonObject> results;
  bool good = true;
  for (const Row& row : rows) {
    if (row.name.find(options.filter) == std::string::npos) continue;
    try {
      Result result = measure(row, options.device);
      if (host) result.limit_ms = limit_ms(row, *host);
      print(result);
      results.push_back(json_of(result));
    } catch (const Error& error) {
      std::printf("%-24s failed: %s\n", row.name.c_str(), error.what());
      bench::JsonObject failure;
      failure.add("workload", row.name).add("variant", "volta").add("error", error.what());
      results.push_back(failure);
      good = false;
    }
    empty_cache(options.device);
    if (!options.json.empty()) {  // after every row: a run cut short leaves what it measured
      bench::write_json(options.json, "ops", command, options.device, false, results);
    }
  }
  if (results.empty()) throw UsageError("no row contains: " + options.filter);
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse_options(argc, argv), bench::command_line(argc, argv)) ? 0 : 1;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "volta_ops: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "volta_ops: %s\n", error.what());
    return 1;
  }
}
