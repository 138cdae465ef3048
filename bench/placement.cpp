// Compares placement by cost with both devices: operations on 10^2 to 10^8 elements, and training
// steps with the device named. Prints a table; writes JSON and a plot.
#include <volta/volta.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "measuring.h"

using namespace volta;
using bench::Clock;
using bench::median;
using bench::seconds_since;

namespace {

constexpr const char* kUsage =
    "usage: volta_placement [--device cuda:0|opencl:0] [--most 8] [--steps yes|no]\n"
    "                       [--json FILE] [--svg FILE]\n"
    "  --most P   up to 10^P elements\n"
    "  --steps    whether training steps are measured too\n";

struct Options {
  Device device = Device::cpu();
  double most = 8;
  bool steps = true;
  std::string json, svg;
};

struct Variant {
  const char* name;
  ExecutionOptions options;
  bool is_named;  // tensors are created on `device`
  Device device = Device::cpu();
};

// An operation to time; `make` creates its operands with n elements.
struct Operation {
  std::string name;
  std::function<std::vector<Tensor>(std::int64_t n, const TensorOptions&)> make;
  std::function<Tensor(const std::vector<Tensor>&)> run;
};

struct Row {
  std::string operation;
  double elements;
  double cpu, gpu, placed;
  std::string device;  // where placement ran it
  double ratio() const { return placed / std::min(cpu, gpu); }
};

void wait_for(const Tensor& result) {
  result.eval();
  synchronize(result.device());
}

Row measured(const Operation& operation, double elements, const Options& options) {
  const auto n = static_cast<std::int64_t>(std::llround(elements));
  const ExecutionOptions plain{.placement = Placement::as_written};
  const ExecutionOptions by_cost{.placement = Placement::by_cost, .gpu = options.device};
  const Variant variants[] = {{"cpu", plain, true, Device::cpu()},
                              {"gpu", plain, true, options.device},
                              {"placed", by_cost, false}};
  std::vector<Tensor> operands[3];
  std::vector<double> times[3];
  std::string device;
  const NoGrad no_grad;
  const Tensor tiny = tensor({1, 2}, {.device = Device::cpu()});
  const auto once = [&](int variant) {
    const ExecutionContext context(variants[variant].options);
    (tiny * 2).eval();  // makes the library see the new scope
    const auto start = Clock::now();
    const Tensor result = operation.run(operands[variant]);
    wait_for(result);
    const double took = seconds_since(start);
    if (variant == 2) device = to_string(result.device());
    return took;
  };
  double slowest = 0;
  for (int variant = 0; variant < 3; ++variant) {
    const ExecutionContext context(variants[variant].options);
    TensorOptions made;
    if (variants[variant].is_named) made.device = variants[variant].device;
    operands[variant] = operation.make(n, made);
    for (Tensor& each : operands[variant]) each.eval();
    // The first runs build and compile; placement may also wait to see what a move would save.
    double took = 0;
    for (int i = 0; i < 8 && (i < 3 || took < 0.5); ++i) took = once(variant);
    slowest = std::max(slowest, took);
  }
  const int rounds = std::clamp(static_cast<int>(1.0 / slowest), 5, 200);
  // The order alternates, because a device that was idle takes a while to reach full speed.
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < 3; ++i) {
      const int variant = round % 2 == 0 ? i : 2 - i;
      times[variant].push_back(once(variant));
    }
  }
  return {operation.name, elements, median(times[0]), median(times[1]), median(times[2]), device};
}

// ---- Training steps

struct Network {
  const char* name;
  std::function<nn::Sequential()> make;
  Shape input;
};

// Training steps of a network, with a named device or placement by cost.
class Training {
 public:
  Training(const Network& network, Device device, bool placed)
      : device_(device),
        placed_(placed),
        shape_(network.input),
        model_(made(network)),
        optimizer_(model_.parameters(), {.lr = 1e-3}) {
    pixels_.resize(static_cast<std::size_t>(shape_.numel()));
    for (std::size_t i = 0; i < pixels_.size(); ++i)
      pixels_[i] = static_cast<float>(i % 251) / 251.0f;
    labels_.assign(static_cast<std::size_t>(shape_[0]), 3);
  }

  // Seconds per step, over many steps with one wait at the end.
  double seconds(int steps) {
    const ExecutionContext context(options());
    const auto start = Clock::now();
    Tensor loss;
    for (int i = 0; i < steps; ++i) loss = step();
    loss.item();
    return seconds_since(start) / steps;
  }

 private:
  ExecutionOptions options() const {
    if (!placed_) return {.placement = Placement::as_written};
    return {.placement = Placement::by_cost, .gpu = device_};
  }

  nn::Sequential made(const Network& network) const {
    const ExecutionContext context(options());
    manual_seed(1);
    nn::Sequential model = network.make();
    if (!placed_) model.to(device_);
    return model;
  }

  Tensor step() {
    // The batch is on the host, as a loader without a device returns it.
    Tensor x = from_vector(pixels_, shape_, {.device = Device::cpu()});
    Tensor y = from_vector(labels_, {shape_[0]}, {.device = Device::cpu()});
    if (!placed_) {
      x = x.to(device_);
      y = y.to(device_);
    }
    optimizer_.zero_grad();
    Tensor loss = cross_entropy(model_(x), y);
    loss.backward();
    optimizer_.step();
    return loss;
  }

  const Device device_;
  const bool placed_;
  const Shape shape_;
  nn::Sequential model_;
  optim::Adam optimizer_;
  std::vector<float> pixels_;
  std::vector<std::int64_t> labels_;
};

// ---- The plot, with logarithmic scales

std::string plot(const std::vector<Row>& rows, const std::string& operation, double left) {
  constexpr double kWidth = 400, kHeight = 300;
  double low = 1e9, high = 0;
  for (const Row& row : rows) {
    low = std::min({low, row.cpu, row.gpu, row.placed});
    high = std::max({high, row.cpu, row.gpu, row.placed});
  }
  double most = 0;
  for (const Row& row : rows) most = std::max(most, std::log10(row.elements));
  const auto x = [&](double elements) {
    return left + kWidth * (std::log10(elements) - 2) / (most - 2);
  };
  const auto y = [&](double seconds) {
    return 40 + kHeight * (1 - std::log(seconds / low) / std::log(high / low));
  };
  std::ostringstream out;
  out << "<text x=\"" << left << "\" y=\"28\">" << operation << "</text>\n";
  for (double decade = std::ceil(std::log10(low)); decade <= std::log10(high); ++decade) {
    const double at = y(std::pow(10, decade));
    out << "<path class=\"grid\" d=\"M" << left << ' ' << at << 'h' << kWidth << "\"/><text x=\""
        << left - 6 << "\" y=\"" << at + 4 << "\" text-anchor=\"end\">1e" << decade
        << " s</text>\n";
  }
  for (double decade = 2; decade <= most; ++decade)
    out << "<text x=\"" << x(std::pow(10, decade)) << "\" y=\"" << 40 + kHeight + 18
        << "\" text-anchor=\"middle\">1e" << decade << "</text>\n";
  const std::pair<const char*, double Row::*> lines[] = {
      {"cpu", &Row::cpu}, {"gpu", &Row::gpu}, {"placed", &Row::placed}};
  for (const auto& [name, value] : lines) {
    out << "<path class=\"" << name << "\" d=\"";
    char move = 'M';
    for (const Row& row : rows) {
      if (row.operation != operation) continue;
      out << move << x(row.elements) << ' ' << y(row.*value);
      move = 'L';
    }
    out << "\"/>\n";
  }
  return out.str();
}

void write_plot(const std::vector<Row>& rows, const std::vector<Operation>& operations,
                const std::string& path) {
  std::ofstream out(path);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << 500 * operations.size()
      << "\" height=\"400\" font-family=\"sans-serif\" font-size=\"12\">\n<style>path{fill:none}"
         ".grid{stroke:#ddd}.cpu{stroke:#c60;stroke-width:1.5}.gpu{stroke:#06c;stroke-width:1.5}"
         ".placed{stroke:#000;stroke-width:3;stroke-dasharray:2 5}</style>\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  double left = 70;
  for (const Operation& operation : operations) {
    out << plot(rows, operation.name, left);
    left += 500;
  }
  out << "<text x=\"70\" y=\"385\">time of one operation by elements: orange CPU, blue GPU, dots "
         "where placement by cost ran it</text>\n</svg>\n";
}

Options parsed(int argc, char** argv) {
  Options options;
  std::string device = "best";
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (i + 1 == argc) throw bench::UsageError("unknown option or missing value: " + option);
    const std::string value = argv[++i];
    if (option == "--device") {
      device = value;
    } else if (option == "--most") {
      options.most = std::stod(value);
    } else if (option == "--steps") {
      options.steps = value != "no";
    } else if (option == "--json") {
      options.json = value;
    } else if (option == "--svg") {
      options.svg = value;
    } else {
      throw bench::UsageError("unknown option: " + option);
    }
  }
  options.device = Device::parse(device);
  if (options.device.is_cpu()) throw bench::UsageError("placement needs a GPU: --device");
  return options;
}

std::int64_t side(std::int64_t n) {
  return static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(n))));
}

void run(const Options& options) {
  std::cout << "CPU " << Device::cpu().name() << ", " << num_threads() << " threads; "
            << options.device << " " << options.device.name() << "\n"
            << placement_figures(options.device) << "\n";
  const std::vector<Operation> operations = {
      {"x * 2 + 1",
       [](std::int64_t n, const TensorOptions& o) { return std::vector{rand({n}, o)}; },
       [](const std::vector<Tensor>& in) { return in[0] * 2 + 1; }},
      {"tanh(x) * y",
       [](std::int64_t n, const TensorOptions& o) {
         return std::vector{rand({n}, o), rand({n}, o)};
       },
       [](const std::vector<Tensor>& in) { return in[0].tanh() * in[1]; }},
      {"matmul",
       [](std::int64_t n, const TensorOptions& o) {
         return std::vector{rand({side(n), side(n)}, o), rand({side(n), side(n)}, o)};
       },
       [](const std::vector<Tensor>& in) { return in[0].matmul(in[1]); }},
  };
  std::vector<Row> rows;
  std::printf("%-12s %10s %11s %11s %11s  %-8s %s\n", "operation", "elements", "cpu us", "gpu us",
              "placed us", "ran on", "of the better");
  for (const Operation& operation : operations) {
    for (double power = 2; power <= options.most + 1e-9; power += 0.5) {
      const Row row = measured(operation, std::pow(10, power), options);
      std::printf("%-12s %10.3g %11.1f %11.1f %11.1f  %-8s %.2f\n", row.operation.c_str(),
                  row.elements, row.cpu * 1e6, row.gpu * 1e6, row.placed * 1e6, row.device.c_str(),
                  row.ratio());
      std::fflush(stdout);
      rows.push_back(row);
      empty_cache(options.device);
      empty_cache(Device::cpu());
    }
  }
  const Network networks[] = {
      {"mlp",
       [] {
         return nn::Sequential({nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 256), nn::ReLU(),
                                nn::Linear(256, 10)});
       },
       {128, 784}},
      {"cnn",
       [] {
         return nn::Sequential({nn::Conv2d(1, 16, 3, {.padding = 1}), nn::BatchNorm2d(16),
                                nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(16, 32, 3, {.padding = 1}),
                                nn::BatchNorm2d(32), nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(),
                                nn::Linear(32 * 7 * 7, 10)});
       },
       {64, 1, 28, 28}},
  };
  std::ostringstream steps;
  for (const Network& network : networks) {
    if (!options.steps) break;
    Training with_name(network, options.device, false), by_cost(network, options.device, true);
    std::vector<double> named, placed;
    // The variants alternate block by block, with either one first, so that both see the same
    // machine load.
    constexpr int kWarmup = 4, kBlocks = 24, kSteps = 50;
    for (int block = 0; block < kWarmup + kBlocks; ++block) {
      for (const bool first : {block % 2 == 0, block % 2 == 1}) {
        const double took = (first ? with_name : by_cost).seconds(kSteps);
        if (block >= kWarmup) (first ? named : placed).push_back(took);
      }
    }
    std::printf("%-4s a step: %.1f us with the device named, %.1f placed: %.3f\n", network.name,
                median(named) * 1e6, median(placed) * 1e6, median(placed) / median(named));
    steps << (steps.str().empty() ? "" : ",") << "\n    {\"network\": \"" << network.name
          << "\", \"named_us\": " << median(named) * 1e6
          << ", \"placed_us\": " << median(placed) * 1e6 << "}";
  }
  if (!options.svg.empty()) write_plot(rows, operations, options.svg);
  if (options.json.empty()) return;
  std::ofstream out(options.json);
  out << "{\n  \"cpu\": \"" << Device::cpu().name() << "\",\n  \"threads\": " << num_threads()
      << ",\n  \"gpu\": \"" << options.device.name() << "\",\n  \"sweep\": [";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out << (i == 0 ? "" : ",") << "\n    {\"operation\": \"" << rows[i].operation
        << "\", \"elements\": " << rows[i].elements << ", \"cpu_us\": " << rows[i].cpu * 1e6
        << ", \"gpu_us\": " << rows[i].gpu * 1e6 << ", \"placed_us\": " << rows[i].placed * 1e6
        << ", \"ran_on\": \"" << rows[i].device << "\"}";
  }
  out << "\n  ],\n  \"steps\": [" << steps.str() << "\n  ]\n}\n";
}

}  // namespace

int main(int argc, char** argv) try {
  run(parsed(argc, argv));
} catch (const bench::UsageError& error) {
  std::fprintf(stderr, "%s\n%s", error.what(), kUsage);
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
