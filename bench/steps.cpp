// Whole training steps as users write them: zero_grad, forward, backward, Adam. Prints the median
// time of a step and the library's work in it; the peers in bench/peers/ measure the same
// definitions in the same way.
#include <volta/volta.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "measuring.h"

using namespace volta;
using bench::Clock;
using bench::median;
using bench::seconds_since;
using bench::UsageError;

namespace {

constexpr const char* kUsage =
    "usage: volta_steps [--device cpu|cuda:0|opencl:0] [--workload xor|deep|mlp|mlp4096|all]\n"
    "                   [--steps N | --first] [--tf32] [--json FILE]\n"
    "  --steps N   steps to measure in all; without it, enough for half a second\n"
    "  --first     the first step alone, as a new process meets it\n"
    "  --tf32      matrix products in tf32 where the device has it\n";

struct Options {
  Device device = Device::cpu();
  std::string workload = "all";
  std::int64_t steps = 0;  // 0: limited by time
  bool first = false;
  bool tf32 = false;
  std::string json;
};

Options parse_options(int argc, char** argv) {
  Options options;
  std::string device = "best";
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--tf32" || option == "--first") {
      (option == "--tf32" ? options.tf32 : options.first) = true;
      continue;
    }
    if (i + 1 == argc) throw UsageError("unknown option or missing value: " + option);
    const std::string value = argv[++i];
    if (option == "--device") {
      device = value;
    } else if (option == "--workload") {
      options.workload = value;
    } else if (option == "--steps") {
      char* end = nullptr;
      options.steps = std::strtoll(value.c_str(), &end, 10);
      if (*end != '\0' || options.steps < 1) throw UsageError("--steps needs a positive number");
    } else if (option == "--json") {
      options.json = value;
    } else {
      throw UsageError("unknown option: " + option);
    }
  }
  // A second workload would start in a warm process.
  if (options.first && options.workload == "all") options.workload = "mlp";
  options.device = Device::parse(device);
  return options;
}

// A model with its data and optimizer, ready for training steps.
struct Workload {
  std::string name;
  nn::Sequential model;
  Tensor x, y;
  std::function<Tensor(const Tensor&, const Tensor&)> loss;
};

Workload make_xor(Device device) {
  nn::Sequential model({nn::Linear(2, 8), nn::ReLU(), nn::Linear(8, 1)});
  model.to(device);
  return {"xor", model, tensor({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}, {.device = device}),
          tensor({0, 1, 1, 0}, {4, 1}, {.device = device}),
          [](const Tensor& output, const Tensor& target) { return mse_loss(output, target); }};
}

// A model with little to compute and much to record, which shows the cost of a node on the host.
Workload make_deep(Device device) {
  nn::Sequential model;
  for (int layer = 0; layer < 16; ++layer) {
    model.append(nn::Linear(8, 8));
    model.append(nn::Tanh());
  }
  model.to(device);
  return {"deep", model, randn({4, 8}, {.device = device}).eval(),
          randn({4, 8}, {.device = device}).eval(),
          [](const Tensor& output, const Tensor& target) { return mse_loss(output, target); }};
}

Workload make_mlp(const std::string& name, std::int64_t batch, Device device) {
  nn::Sequential model({nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                        nn::Linear(1024, 10)});
  model.to(device);
  return {name, model, randn({batch, 784}, {.device = device}).eval(),
          randint(0, 10, {batch}, {.device = device}).eval(),
          [](const Tensor& output, const Tensor& target) { return cross_entropy(output, target); }};
}

struct Result : bench::Work {
  std::string workload;
  bench::Timing timing;
  double record_us = 0, nodes = 0;  // forward and backward of one step, on the host
  double host_us = 0;               // until step() returns, starting with an idle device
  double first_step_ms = 0;         // includes planning and compilation
  double loss_before = 0, loss_after = 0;
  std::uint64_t peak_bytes = 0;
};

constexpr int kWarmup = 20;

Result measure(const Workload& work, const Options& options) {
  const Device device = options.device;
  nn::Sequential model = work.model;
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  const auto step = [&] {
    optimizer.zero_grad();
    work.loss(model(work.x), work.y).backward();
    optimizer.step();
  };
  const auto loss_now = [&] {
    NoGrad no_grad;
    return work.loss(model(work.x), work.y).item();
  };

  Result result;
  result.workload = work.name;
  result.loss_before = loss_now();
  reset_peak_memory(device);
  auto start = Clock::now();
  step();
  synchronize(device);
  result.first_step_ms = seconds_since(start) * 1e3;
  for (int i = 0; i < kWarmup; ++i) step();
  synchronize(device);

  start = Clock::now();
  for (int i = 0; i < kWarmup; ++i) step();
  synchronize(device);
  const double estimate = seconds_since(start) / kWarmup;
  const std::int64_t block = options.steps
                                 ? std::max<std::int64_t>(1, options.steps / bench::kBlocks)
                                 : bench::block_steps(estimate);
  const Counters before = counters();
  result.timing = bench::time_blocks(step, [&] { synchronize(device); }, bench::kBlocks, block);
  const Counters after = counters();
  static_cast<bench::Work&>(result) = bench::work_between(before, after, result.timing.steps);
  result.peak_bytes = memory_stats(device).peak;

  const std::uint64_t recorded = counters().nodes_recorded;
  optimizer.zero_grad();
  work.loss(model(work.x), work.y).backward();
  result.nodes = static_cast<double>(counters().nodes_recorded - recorded);
  optimizer.step();

  std::vector<double> record_times, host_times, clock_times;
  const int host_steps = estimate > 0.02 ? 10 : 200;
  for (int i = 0; i < host_steps; ++i) {
    synchronize(device);
    const auto begin = Clock::now();
    optimizer.zero_grad();  // dropping the last gradients is part of the host's time
    start = Clock::now();
    const Tensor loss = work.loss(model(work.x), work.y);
    loss.backward();
    record_times.push_back(seconds_since(start) * 1e6);
    optimizer.step();
    host_times.push_back(seconds_since(begin) * 1e6);
    start = Clock::now();
    clock_times.push_back(seconds_since(start) * 1e6);
  }
  synchronize(device);
  // The time of reading the clock is subtracted: about 3 ns per node of the smallest workload.
  result.record_us = median(record_times) - median(clock_times);
  result.host_us = median(host_times);
  result.loss_after = loss_now();
  return result;
}

bench::JsonObject json_of(const Result& r) {
  bench::JsonObject json;
  json.add("workload", r.workload).add("variant", "volta").add(r.timing);
  json.add("record_us", r.record_us).add("nodes", r.nodes);
  json.add("ns_per_node", r.record_us * 1e3 / std::max(1.0, r.nodes)).add("host_us", r.host_us);
  json.add("first_step_ms", r.first_step_ms).add("launches", r.launches);
  json.add("library_calls", r.library_calls).add("graph_launches", r.graph_launches);
  json.add("submits", r.submits).add("transfers", r.transfers).add("plans_built", r.plans_built);
  json.add("compilations", r.compilations).add("allocations", r.allocations);
  json.add("peak_bytes", r.peak_bytes).add("loss_before", r.loss_before);
  return json.add("loss_after", r.loss_after);
}

// Measures the first step and the time before it: loading the backend, making model and data.
// `started` is the start of the process.
bench::JsonObject measure_first(const Workload& work, const Options& options,
                                Clock::time_point started) {
  nn::Sequential model = work.model;
  optim::Adam optimizer(model.parameters(), {.lr = 1e-3});
  synchronize(options.device);
  const double ready_ms = seconds_since(started) * 1e3;
  const Counters before = counters();
  const auto start = Clock::now();
  optimizer.zero_grad();
  const Tensor loss = work.loss(model(work.x), work.y);
  loss.backward();
  optimizer.step();
  synchronize(options.device);
  const double step_ms = seconds_since(start) * 1e3;
  const Counters after = counters();
  const auto compiled = bench::difference(before, after, &Counters::compilations);
  const auto loaded = bench::difference(before, after, &Counters::kernels_loaded);
  std::printf("%-8s %14.1f %14.1f %14.1f %9llu %9llu\n", work.name.c_str(), step_ms, ready_ms,
              step_ms + ready_ms, static_cast<unsigned long long>(compiled),
              static_cast<unsigned long long>(loaded));
  bench::JsonObject json;
  json.add("workload", work.name).add("variant", "volta").add("first_step_ms", step_ms);
  json.add("ready_ms", ready_ms).add("compilations", compiled).add("kernels_loaded", loaded);
  return json.add("loss", loss.item());
}

bench::JsonObject measure_and_print(const Workload& work, const Options& options) {
  const Result r = measure(work, options);
  std::printf("%-8s %10.4f %10.4f %9.1f %9.1f %8.0f %8.1f %8.1f %7llu %7llu %9.6f\n",
              work.name.c_str(), r.timing.median_ms, r.timing.min_ms, r.host_us, r.record_us,
              r.record_us * 1e3 / std::max(1.0, r.nodes), r.launches, r.library_calls,
              static_cast<unsigned long long>(r.plans_built),
              static_cast<unsigned long long>(r.allocations), r.loss_after);
  return json_of(r);
}

void run(const Options& options, const std::string& command, Clock::time_point started) {
  manual_seed(0);
  ExecutionContext precision({.matmul = options.tf32 ? Precision::tf32 : Precision::f32});
  const std::vector<std::pair<std::string, std::function<Workload(const std::string&)>>> known = {
      {"xor", [&](const std::string&) { return make_xor(options.device); }},
      {"deep", [&](const std::string&) { return make_deep(options.device); }},
      {"mlp", [&](const std::string& name) { return make_mlp(name, 128, options.device); }},
      {"mlp4096", [&](const std::string& name) { return make_mlp(name, 4096, options.device); }}};

  std::printf("volta %s on %s (%s), %d CPU threads, %s products\n", version(),
              to_string(options.device).c_str(), options.device.name().c_str(), num_threads(),
              options.tf32 ? "tf32" : "f32");
  if (options.first) {
    std::printf("%-8s %14s %14s %14s %9s %9s\n", "workload", "first step ms", "until ready ms",
                "together ms", "compiled", "loaded");
  } else {
    std::printf("%-8s %10s %10s %9s %9s %8s %8s %8s %7s %7s %9s\n", "workload", "median ms",
                "min ms", "host us", "record us", "ns/node", "kernels", "library", "plans",
                "allocs", "loss");
  }
  std::vector<bench::JsonObject> results;
  for (const auto& [name, make] : known) {
    if (options.workload != "all" && options.workload != name) continue;
    const Workload work = make(name);
    results.push_back(options.first ? measure_first(work, options, started)
                                    : measure_and_print(work, options));
    std::fflush(stdout);
  }
  if (results.empty()) throw UsageError("unknown workload: " + options.workload);
  if (!options.json.empty()) {
    bench::write_json(options.json, options.first ? "first_step" : "steps", command, options.device,
                      options.tf32, results);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Clock::time_point started = Clock::now();
  try {
    run(parse_options(argc, argv), bench::command_line(argc, argv), started);
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "volta_steps: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "volta_steps: %s\n", error.what());
    return 1;
  }
}
