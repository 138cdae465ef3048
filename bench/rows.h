// The common part of programs that measure row by row: options, steps over rotating inputs,
// warm-up, measurement, limits of the host, the table and the JSON. Each program is a list of rows;
// bench/peers/torch_rows.py does the same for PyTorch.
#pragma once

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

namespace bench {

using volta::Counters;
using volta::Device;
using volta::Shape;
using volta::Tensor;

// The limit of a row on the host: copying or reading its bytes, or a direct library call.
enum class Limit { none, copy, read, onednn };

using Step = std::function<void()>;
// Makes data on the device and returns the step to repeat, which submits one evaluation without
// waiting.
using Prepare = std::function<Step(Device)>;

// One line of the table.
struct Row {
  std::string name = {};
  double bytes = 0;  // bytes that must be read and written, or transferred
  double operations = 0;
  Limit limit = Limit::none;
  std::function<Step()> direct = {};  // for Limit::onednn, prepares the library's call
  std::string group = {};             // compare.py sums up the rows of a group
  Prepare prepare = {};
};

// A program: its name, the kind of its JSON, the width of the name column, and its rows.
struct Program {
  const char* name = "";
  const char* kind = "";
  int name_width = 24;
  std::function<std::vector<Row>(Device)> gpu_rows = {};
  std::function<std::vector<Row>()> cpu_rows = {};
};

// ---- Steps.

using Inputs = std::vector<Tensor>;
using Apply = std::function<Tensor(const Inputs&)>;
using ApplyAll = std::function<Inputs(const Inputs&)>;
using Make = std::function<Inputs(Device)>;

// The number of bytes accessed before a buffer is used again, larger than any cache.
constexpr double kRotatedBytes = 256e6;

// Evaluates results = apply(inputs) over several sets of inputs and results in turn, so that no set
// is still in a cache. `bytes` is the size of one set.
inline Prepare rotating_all(double bytes, const Make& make, const ApplyAll& apply) {
  return [=](Device device) {
    struct Set {
      Inputs inputs, results;
    };
    auto sets = std::make_shared<std::vector<Set>>();
    do {
      sets->push_back({make(device), {}});
    } while (bytes * static_cast<double>(sets->size()) < kRotatedBytes);
    return [sets, apply, next = std::size_t{0}]() mutable {
      Set& set = (*sets)[next];
      next = next + 1 == sets->size() ? 0 : next + 1;
      set.results = apply(set.inputs);
      // The first call computes all of them.
      for (const Tensor& result : set.results) result.eval();
    };
  };
}
inline Prepare rotating(double bytes, const Make& make, const Apply& apply) {
  return rotating_all(bytes, make, [=](const Inputs& in) { return Inputs{apply(in)}; });
}

// Uses the same inputs every time, which may stay in caches.
inline Prepare staying_all(const Make& make, const ApplyAll& apply) {
  return rotating_all(kRotatedBytes, make, apply);
}
inline Prepare staying(const Make& make, const Apply& apply) {
  return rotating(kRotatedBytes, make, apply);
}

inline Tensor normal(const Shape& shape, Device device, volta::DType dtype = volta::DType::f32) {
  const Tensor values = volta::randn(shape, {.device = device}).eval();
  return dtype == volta::DType::f32 ? values : values.to(dtype).eval();
}

// Makes `count` tensors of the shape.
inline Make normals(int count, const Shape& shape, volta::DType dtype = volta::DType::f32) {
  return [=](Device device) {
    Inputs inputs;
    for (int i = 0; i < count; ++i) inputs.push_back(normal(shape, device, dtype));
    return inputs;
  };
}

// ---- Options.

struct RowOptions {
  Device device = Device::cpu();
  std::string filter, json;
  bool gpu_sizes = false;
};

inline void print_usage(const Program& program) {
  std::fprintf(
      stderr,
      "usage: %s [--device cpu|cuda:0|opencl:0] [--filter TEXT] [--sizes cpu|gpu]\n"
      "       %*s [--processor-time] [--json FILE]\n"
      "  --filter TEXT      only rows whose name contains the text\n"
      "  --sizes cpu|gpu    the sizes of the other kind of device\n"
      "  --processor-time   of one thread, instead of wall-clock time: for a CPU that others use;\n"
      "                     needs VOLTA_NUM_THREADS=1 and OMP_NUM_THREADS=1\n",
      program.name, static_cast<int>(std::strlen(program.name)), "");
}

inline RowOptions parse_row_options(int argc, char** argv) {
  RowOptions options;
  std::string device = "best", sizes;
  for (int i = 1; i < argc; ++i) {
    std::string option = argv[i];
    if (option == "--processor-time") {
      Clock::processor_time = true;
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
  if (Clock::processor_time && (volta::num_threads() != 1 || options.device.is_gpu())) {
    throw UsageError("--processor-time needs one thread of a CPU device");
  }
  options.gpu_sizes = sizes.empty() ? options.device.is_gpu() : sizes == "gpu";
  return options;
}

// ---- Measuring.

struct RowResult : Work {
  const Row* row = nullptr;
  Timing timing;
  double limit_ms = 0;  // best possible time on the host; 0 if not measured
};

// Repeats passes until one builds, compiles and allocates nothing and replays as many graphs as the
// previous pass. Returns the seconds of an evaluation.
inline double warm_up(const Step& step, Device device) {
  constexpr int kMostPasses = 12;
  constexpr std::int64_t kFewestSteps = 2, kMostSteps = 64;  // a rotation has at most 49 sets
  constexpr double kPassSeconds = 0.2;
  double estimate = 0, replayed_before = -1;
  for (int pass = 0; pass < kMostPasses; ++pass) {
    const Counters before = volta::counters();
    const auto start = Clock::now();
    std::int64_t steps = 0;
    while (steps < kFewestSteps || (steps < kMostSteps && seconds_since(start) < kPassSeconds)) {
      step();
      ++steps;
    }
    volta::synchronize(device);
    estimate = seconds_since(start) / static_cast<double>(steps);
    const Counters after = volta::counters();
    const auto total = [&](std::uint64_t Counters::* field) {
      return difference(before, after, field);
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

inline RowResult measure(const Row& row, Device device) {
  RowResult result;
  result.row = &row;
  std::vector<Step> steps = {row.prepare(device)};
  const double estimate = warm_up(steps[0], device);
  const bool beside = row.limit == Limit::onednn && device.is_cpu();
  if (const Step direct = beside ? row.direct() : Step()) {
    direct();
    steps.push_back(direct);
  }
  const Counters before = volta::counters();
  const std::vector<Timing> timings = time_in_turn(
      steps, [&] { volta::synchronize(device); }, block_count(estimate), block_steps(estimate));
  const Counters after = volta::counters();
  result.timing = timings[0];
  if (timings.size() > 1) result.limit_ms = timings[1].median_ms;
  static_cast<Work&>(result) = work_between(before, after, result.timing.steps);
  if (result.launches + result.library_calls + result.transfers < 1) {
    throw volta::Error(row.name + ": evaluated without a kernel, a library call or a transfer");
  }
  return result;
}

// For rows bound by memory, the limit is measured together with the row, so that both see the same
// machine load.
inline void measure_memory(RowResult& result, HostLimits& host) {
  const Row& row = *result.row;
  if (row.limit == Limit::copy) result.limit_ms = row.bytes / host.copy_rate() * 1e3;
  if (row.limit == Limit::read) result.limit_ms = row.bytes / host.read_rate() * 1e3;
}

inline const char* limit_name(Limit limit) {
  switch (limit) {
    case Limit::copy:
      return "copy";
    case Limit::read:
      return "read";
    case Limit::onednn:
      return "oneDNN";
    case Limit::none:
      break;
  }
  return "";
}

// ---- Reports.

inline double gb_per_s(const RowResult& r) { return r.row->bytes / r.timing.median_ms * 1e-6; }
inline double tflop_per_s(const RowResult& r) {
  return r.row->operations / r.timing.median_ms * 1e-9;
}

inline JsonObject json_of(const RowResult& r) {
  JsonObject json;
  json.add("workload", r.row->name).add("variant", "volta").add(r.timing);
  if (!r.row->group.empty()) json.add("group", r.row->group);
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

inline void print_header(const Program& program, Device device) {
  std::printf("volta %s on %s (%s), %d CPU threads%s\n", volta::version(),
              to_string(device).c_str(), device.name().c_str(), volta::num_threads(),
              Clock::processor_time ? ", processor time" : "");
  std::printf("%-*s %12s %12s %16s %14s %8s %8s %7s %6s %6s\n", program.name_width, "row",
              "median us", "min us", "rate", "of limit", "kernels", "library", "graphs", "plans",
              "allocs");
}

inline void print(const Program& program, const RowResult& r) {
  char rate[32] = "", limit[32] = "";
  if (r.row->bytes > 0) {
    std::snprintf(rate, sizeof rate, "%.1f GB/s", gb_per_s(r));
  } else if (r.row->operations > 0) {
    std::snprintf(rate, sizeof rate, "%.3f TFLOP/s", tflop_per_s(r));
  }
  if (r.limit_ms > 0) {
    std::snprintf(limit, sizeof limit, "%.1f%% %s", r.limit_ms / r.timing.median_ms * 100,
                  limit_name(r.row->limit));
  }
  std::printf("%-*s %12.2f %12.2f %16s %14s %8.2f %8.2f %7.2f %6llu %6llu\n", program.name_width,
              r.row->name.c_str(), r.timing.median_ms * 1e3, r.timing.min_ms * 1e3, rate, limit,
              r.launches, r.library_calls, r.graph_launches,
              static_cast<unsigned long long>(r.plans_built),
              static_cast<unsigned long long>(r.allocations));
  std::fflush(stdout);
}

// Prints the total time of each group and that of the direct library calls.
inline void print_groups(const Program& program, const std::vector<RowResult>& results) {
  std::vector<std::string> groups;
  for (const RowResult& r : results) {
    const std::string& group = r.row->group;
    if (!group.empty() && std::find(groups.begin(), groups.end(), group) == groups.end())
      groups.push_back(group);
  }
  for (const std::string& group : groups) {
    double ours = 0, limit = 0;
    for (const RowResult& r : results) {
      if (r.row->group != group) continue;
      ours += r.timing.median_ms;
      limit += r.limit_ms;
    }
    std::printf("%-*s %12.2f", program.name_width, group.c_str(), ours * 1e3);
    if (limit > 0) std::printf("   %.2f us, %.1f%% of the limit", limit * 1e3, limit / ours * 100);
    std::printf("\n");
  }
}

// ---- Running.

// Returns false if a row failed; the others are measured nevertheless.
inline bool run_rows(const Program& program, const RowOptions& options,
                     const std::string& command) {
  volta::manual_seed(0);
  const std::vector<Row> rows =
      options.gpu_sizes ? program.gpu_rows(options.device) : program.cpu_rows();
  std::optional<HostLimits> host;
  if (options.device.is_cpu()) host.emplace(volta::num_threads());
  print_header(program, options.device);
  std::vector<JsonObject> results;
  std::vector<RowResult> measured;
  bool good = true;
  for (const Row& row : rows) {
    if (row.name.find(options.filter) == std::string::npos) continue;
    try {
      RowResult result = measure(row, options.device);
      if (host) measure_memory(result, *host);
      print(program, result);
      results.push_back(json_of(result));
      measured.push_back(result);
    } catch (const volta::Error& error) {
      std::printf("%-*s failed: %s\n", program.name_width, row.name.c_str(), error.what());
      JsonObject failure;
      failure.add("workload", row.name).add("variant", "volta").add("error", error.what());
      results.push_back(failure);
      good = false;
    }
    volta::empty_cache(options.device);
    if (!options.json.empty()) {  // after every row, so that an interrupted run keeps its results
      write_json(options.json, program.kind, command, options.device, false, results);
    }
  }
  print_groups(program, measured);
  if (results.empty()) throw UsageError("no row contains: " + options.filter);
  return good;
}

// The body of main().
inline int main_of(const Program& program, int argc, char** argv) {
  try {
    return run_rows(program, parse_row_options(argc, argv), command_line(argc, argv)) ? 0 : 1;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "%s: %s\n", program.name, error.what());
    print_usage(program);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program.name, error.what());
    return 1;
  }
}

}  // namespace bench
