// Whole training steps, as users write them: zero_grad, forward, backward, Adam. Prints the median
// step and what the library did in it; the peers in bench/peers/ measure the same definitions the
// same way.
#include <volta/volta.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using namespace volta;

namespace {

constexpr const char* kUsage =
    "usage: volta_steps [--device cpu|cuda:0|opencl:0] [--workload xor|mlp|mlp4096|all]\n"
    "                   [--steps N] [--tf32] [--json FILE]\n"
    "  --steps N   steps to measure in all; without it, enough for half a second\n"
    "  --tf32      matrix products in tf32 where the device has it\n";

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  Device device = Device::cpu();
  std::string workload = "all";
  std::int64_t steps = 0;  // 0: by time
  bool tf32 = false;
  std::string json;
};

Options parse_options(int argc, char** argv) {
  Options options;
  std::string device = "best";
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--tf32") {
      options.tf32 = true;
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
  options.device = Device::parse(device);
  return options;
}

// A model with its data and optimizer, ready to be stepped.
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

Workload make_mlp(const std::string& name, std::int64_t batch, Device device) {
  nn::Sequential model({nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                        nn::Linear(1024, 10)});
  model.to(device);
  return {name, model, randn({batch, 784}, {.device = device}).eval(),
          randint(0, 10, {batch}, {.device = device}).eval(),
          [](const Tensor& output, const Tensor& target) { return cross_entropy(output, target); }};
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Result {
  std::string workload;
  std::int64_t steps = 0, blocks = 0;
  double median_ms = 0, min_ms = 0, max_ms = 0;
  double record_us = 0, nodes = 0;  // forward and backward of one step, on the host
  double host_us = 0;               // until step() returns, the device idle before
  double first_step_ms = 0;         // planning and compilation included
  double loss_before = 0, loss_after = 0;
  // Of one measured step.
  double launches = 0, library_calls = 0, graph_launches = 0, submits = 0, transfers = 0;
  // Over all measured steps.
  std::uint64_t plans_built = 0, compilations = 0, allocations = 0;
  std::uint64_t peak_bytes = 0;
};

constexpr int kWarmup = 20;
constexpr int kBlocks = 25;
constexpr double kBlockSeconds = 0.02;

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
  const std::int64_t block =
      options.steps
          ? std::max<std::int64_t>(1, options.steps / kBlocks)
          : std::max<std::int64_t>(1, static_cast<std::int64_t>(kBlockSeconds / estimate));
  result.blocks = kBlocks;
  result.steps = block * kBlocks;

  std::vector<double> times;
  const Counters before = counters();
  for (int b = 0; b < kBlocks; ++b) {
    start = Clock::now();
    for (std::int64_t i = 0; i < block; ++i) step();
    synchronize(device);
    times.push_back(seconds_since(start) / static_cast<double>(block) * 1e3);
  }
  const Counters after = counters();
  const auto per_step = [&](std::uint64_t Counters::* field) {
    return static_cast<double>(after.*field - before.*field) / static_cast<double>(result.steps);
  };
  result.median_ms = median(times);
  result.min_ms = *std::min_element(times.begin(), times.end());
  result.max_ms = *std::max_element(times.begin(), times.end());
  result.launches = per_step(&Counters::launches);
  result.library_calls = per_step(&Counters::library_calls);
  result.graph_launches = per_step(&Counters::graph_launches);
  result.submits = per_step(&Counters::submits);
  result.transfers = per_step(&Counters::transfers);
  result.plans_built = after.plans_built - before.plans_built;
  result.compilations = after.compilations - before.compilations;
  result.allocations = after.allocations - before.allocations;
  result.peak_bytes = memory_stats(device).peak;

  std::vector<double> record_times, host_times;
  const int host_steps = estimate > 0.02 ? 10 : 200;
  for (int i = 0; i < host_steps; ++i) {
    synchronize(device);
    const std::uint64_t nodes = counters().nodes_recorded;
    start = Clock::now();
    optimizer.zero_grad();
    const Tensor loss = work.loss(model(work.x), work.y);
    loss.backward();
    record_times.push_back(seconds_since(start) * 1e6);
    result.nodes = static_cast<double>(counters().nodes_recorded - nodes);
    const auto submitted = Clock::now();
    optimizer.step();
    host_times.push_back(record_times.back() + seconds_since(submitted) * 1e6);
  }
  synchronize(device);
  result.record_us = median(record_times);
  result.host_us = median(host_times);
  result.loss_after = loss_now();
  return result;
}

std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out << "\\u" << std::hex << std::setw(4) << std::setfill('0') << static_cast<int>(c)
          << std::dec;
    } else {
      out << c;
    }
  }
  out << '"';
  return out.str();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void write_json(const Options& options, const std::string& command,
                const std::vector<Result>& results) {
  std::ofstream out(options.json);
  out << "{\n  \"framework\": \"volta\",\n  \"versions\": {\"volta\": " << quoted(version())
      << ", \"compiler\": " << quoted(__VERSION__) << "},\n  \"date\": " << quoted(utc_now())
      << ",\n  \"command\": " << quoted(command)
      << ",\n  \"device\": " << quoted(to_string(options.device))
      << ",\n  \"device_name\": " << quoted(options.device.name())
      << ",\n  \"threads\": " << num_threads()
      << ",\n  \"tf32\": " << (options.tf32 ? "true" : "false") << ",\n  \"results\": [";
  const char* separator = "\n    ";
  for (const Result& r : results) {
    out << separator << "{\"workload\": " << quoted(r.workload) << ", \"variant\": \"volta\""
        << ", \"median_ms\": " << r.median_ms << ", \"min_ms\": " << r.min_ms
        << ", \"max_ms\": " << r.max_ms << ", \"steps\": " << r.steps
        << ", \"blocks\": " << r.blocks << ",\n     \"record_us\": " << r.record_us
        << ", \"nodes\": " << r.nodes
        << ", \"ns_per_node\": " << r.record_us * 1e3 / std::max(1.0, r.nodes)
        << ", \"host_us\": " << r.host_us << ", \"first_step_ms\": " << r.first_step_ms
        << ",\n     \"launches\": " << r.launches << ", \"library_calls\": " << r.library_calls
        << ", \"graph_launches\": " << r.graph_launches << ", \"submits\": " << r.submits
        << ", \"transfers\": " << r.transfers << ",\n     \"plans_built\": " << r.plans_built
        << ", \"compilations\": " << r.compilations << ", \"allocations\": " << r.allocations
        << ", \"peak_bytes\": " << r.peak_bytes << ", \"loss_before\": " << r.loss_before
        << ", \"loss_after\": " << r.loss_after << "}";
    separator = ",\n    ";
  }
  out << "\n  ]\n}\n";
  out.close();
  if (!out) throw IoError("cannot write " + options.json);
}

void run(const Options& options, const std::string& command) {
  manual_seed(0);
  ExecutionContext precision({.matmul = options.tf32 ? Precision::tf32 : Precision::f32});
  const std::vector<std::pair<std::string, std::function<Workload(const std::string&)>>> known = {
      {"xor", [&](const std::string&) { return make_xor(options.device); }},
      {"mlp", [&](const std::string& name) { return make_mlp(name, 128, options.device); }},
      {"mlp4096", [&](const std::string& name) { return make_mlp(name, 4096, options.device); }}};

  std::printf("volta %s on %s (%s), %d CPU threads, %s products\n", version(),
              to_string(options.device).c_str(), options.device.name().c_str(), num_threads(),
              options.tf32 ? "tf32" : "f32");
  std::printf("%-8s %10s %10s %9s %9s %8s %8s %8s %7s %7s %9s\n", "workload", "median ms", "min ms",
              "host us", "record us", "ns/node", "kernels", "library", "plans", "allocs", "loss");
  std::vector<Result> results;
  for (const auto& [name, make] : known) {
    if (options.workload != "all" && options.workload != name) continue;
    const Result r = measure(make(name), options);
    std::printf("%-8s %10.4f %10.4f %9.1f %9.1f %8.0f %8.1f %8.1f %7llu %7llu %9.6f\n",
                name.c_str(), r.median_ms, r.min_ms, r.host_us, r.record_us,
                r.record_us * 1e3 / std::max(1.0, r.nodes), r.launches, r.library_calls,
                static_cast<unsigned long long>(r.plans_built),
                static_cast<unsigned long long>(r.allocations), r.loss_after);
    std::fflush(stdout);
    results.push_back(r);
  }
  if (results.empty()) throw UsageError("unknown workload: " + options.workload);
  if (!options.json.empty()) write_json(options, command, results);
}

}  // namespace

int main(int argc, char** argv) {
  std::string command;
  for (int i = 0; i < argc; ++i) {
    const char* slash = i == 0 ? std::strrchr(argv[0], '/') : nullptr;
    command += (i ? " " : "") + std::string(slash ? slash + 1 : argv[i]);
  }
  try {
    run(parse_options(argc, argv), command);
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "volta_steps: %s\n%s", error.what(), kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "volta_steps: %s\n", error.what());
    return 1;
  }
}
