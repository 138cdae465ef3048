// Measures whether copies overlap with computation, and whether two models compute concurrently.
//   volta_overlap [device [megabytes [milliseconds]]]
// A step of at least `milliseconds` (default 2) on a batch of `megabytes` MiB (default 64): with
// the batch already on the device, uploaded for every step from pageable and from page-locked
// memory, and with a result of the batch's size fetched after every step. Each line also has the
// cost over the step alone and the time of the copy by itself.
//   volta_overlap --streams [--device cuda:0] [--width 1024] [--batch 64] [--steps n] [--json file]
// Training steps of two independent models: each alone, both in one stream, and each in its own
// stream (StreamScope), recorded alternately by one thread and by two threads. Each line has the
// time of a pair of steps and its ratio to the sum of both alone.
#include <volta/volta.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <semaphore>
#include <string>
#include <string_view>
#include <thread>
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
    "usage: volta_overlap [DEVICE [MEGABYTES [MILLISECONDS]]]\n"
    "       volta_overlap --streams [--device cpu|cuda:0|opencl:0] [--width N] [--batch N]\n"
    "                     [--steps N] [--json FILE]\n"
    "  --steps N   pairs of steps to a block; without it, enough for 20 ms\n";

constexpr int kRounds = 9;

// Width of the products in a step, and the number of calls timed together, chosen for the device.
std::int64_t width_on(Device device) { return device.type() == DeviceType::cuda ? 2048 : 256; }
int steps_on(Device device) { return device.type() == DeviceType::cuda ? 25 : 5; }

class Step {
 public:
  explicit Step(Device device)
      : weight_(rand({width_on(device), width_on(device)}, {.device = device}) /
                static_cast<double>(width_on(device))) {
    weight_.eval();
  }
  // Computes products of the weight, then one with the batch.
  Tensor operator()(const Tensor& batch) const {
    Tensor w = weight_;
    for (int i = 0; i < products_; ++i) w = matmul(w, weight_);
    return batch * 2 + w.sum();
  }
  void set_products(int products) { products_ = products; }

 private:
  Tensor weight_;
  int products_ = 1;
};

// Milliseconds per call, over many calls with one wait at the end.
double milliseconds(Device device, const std::function<void(int)>& call) {
  const int steps = steps_on(device);
  for (int i = 0; i < 4; ++i) call(i);
  synchronize(device);
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) call(i);
    synchronize(device);
    times.push_back(1e3 * seconds_since(start) / steps);
  }
  return median(times);
}

void measure(Device device, std::int64_t megabytes, double wanted) {
  const Shape shape{megabytes, std::int64_t{1} << 18};
  std::vector<Tensor> pageable, pinned, present;
  for (int i = 0; i < 2; ++i) {
    pageable.push_back(rand(shape));
    pageable.back().eval();
    pinned.push_back(pageable.back().pin_memory());
    present.push_back(pageable.back().to(device));
  }
  const auto of = [](const std::vector<Tensor>& batches, int i) -> const Tensor& {
    return batches[static_cast<std::size_t>(i) % batches.size()];
  };

  Step step(device);
  const auto compute = [&](const Tensor& batch) { step(batch).eval(); };
  const auto alone = [&] { return milliseconds(device, [&](int i) { compute(of(present, i)); }); };
  step.set_products(1);
  const double one = alone();
  step.set_products(5);
  const double each = (alone() - one) / 4;
  step.set_products(std::max(1, 1 + static_cast<int>(std::ceil((wanted - one) / each))));
  const double base = alone();
  std::printf("%s: a step of %.3f ms, batches of %lld MiB\n", to_string(device).c_str(), base,
              static_cast<long long>(megabytes));

  const auto row = [&](const char* what, double with, double copy) {
    std::printf("  %-32s %8.3f ms a step, %+6.1f%%   the copy alone %8.3f ms (%.1f GB/s)\n", what,
                with, 100 * (with / base - 1), copy,
                static_cast<double>(megabytes << 20) * 1e-6 / copy);
  };
  for (const auto& [name, batches] :
       {std::pair{"upload, pageable", &pageable}, std::pair{"upload, page-locked", &pinned}}) {
    const double copy = milliseconds(device, [&](int i) { (void)of(*batches, i).to(device); });
    row(name, milliseconds(device, [&](int i) { compute(of(*batches, i).to(device)); }), copy);
  }
  {
    const double copy =
        milliseconds(device, [&](int i) { (void)(of(present, i) + 0).to_vector_async<float>(); });
    std::deque<AsyncValues<float>> on_the_way;
    row("download of the result",
        milliseconds(device,
                     [&](int i) {
                       on_the_way.push_back(step(of(present, i)).to_vector_async<float>());
                       if (on_the_way.size() > 2) {
                         on_the_way.front().wait();
                         on_the_way.pop_front();
                       }
                     }),
        copy);
  }
}

// A model with its data and optimizer: width-width-width-10, ReLU, cross-entropy, Adam.
class Trainee {
 public:
  Trainee(Device device, std::int64_t width, std::int64_t batch, int stream)
      : model_({nn::Linear(width, width), nn::ReLU(), nn::Linear(width, width), nn::ReLU(),
                nn::Linear(width, 10)}),
        x_(randn({batch, width}, {.device = device}).eval()),
        y_(randint(0, 10, {batch}, {.device = device}).eval()),
        optimizer_((model_.to(device), model_.parameters()), {.lr = 1e-5}),
        stream_(stream) {}

  void step() {
    optimizer_.zero_grad();
    cross_entropy(model_(x_), y_).backward();
    optimizer_.step();
  }
  void step_in_own_stream() {
    const StreamScope scope(stream_);
    step();
  }
  double loss() {
    const NoGrad no_grad;
    return cross_entropy(model_(x_), y_).item();
  }

 private:
  nn::Sequential model_;
  Tensor x_, y_;
  optim::Adam optimizer_;
  int stream_;
};

// A second thread that records on request. It lives throughout the measurement, so that starting a
// thread and setting up its state in the library are not counted.
class SecondThread {
 public:
  SecondThread() : thread_([this] { run(); }) {}
  ~SecondThread() {
    work_ = nullptr;
    begin_.release();
  }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

  void start(std::function<void()> work) {
    work_ = std::move(work);
    begin_.release();
  }
  void join() {
    end_.acquire();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void run() {
    for (;;) {
      begin_.acquire();
      if (!work_) return;
      try {
        work_();
      } catch (...) {
        error_ = std::current_exception();
      }
      end_.release();
    }
  }

  std::function<void()> work_;
  std::exception_ptr error_;
  std::binary_semaphore begin_{0}, end_{0};
  std::jthread thread_;  // last member, because it uses the others
};

struct StreamOptions {
  std::string device = "best", json;
  std::int64_t width = 1024, batch = 64, steps = 0;  // 0 steps: limited by time
};

StreamOptions parse_stream_options(int argc, char** argv) {
  StreamOptions options;
  for (int i = 2; i < argc; ++i) {
    std::string option = argv[i], value;
    if (const std::size_t equals = option.find('='); equals != std::string::npos) {
      value = option.substr(equals + 1);
      option.resize(equals);
    } else if (i + 1 < argc) {
      value = argv[++i];
    } else {
      throw UsageError("unknown option or missing value: " + option);
    }
    const auto positive = [&] {
      char* end = nullptr;
      const std::int64_t number = std::strtoll(value.c_str(), &end, 10);
      if (*end != '\0' || number < 1)
        throw UsageError(option.append(" needs a positive number, not ").append(value));
      return number;
    };
    if (option == "--device") {
      options.device = value;
    } else if (option == "--json") {
      options.json = value;
    } else if (option == "--width") {
      options.width = positive();
    } else if (option == "--batch") {
      options.batch = positive();
    } else if (option == "--steps") {
      options.steps = positive();
    } else {
      throw UsageError("unknown option: " + option);
    }
  }
  return options;
}

void measure_streams(const StreamOptions& options, const std::string& command) {
  const Device device = Device::parse(options.device);
  manual_seed(0);
  Trainee a(device, options.width, options.batch, 1), b(device, options.width, options.batch, 2);
  const double a_before = a.loss(), b_before = b.loss();
  SecondThread second;

  struct Variant {
    const char* name;
    int streams, threads;
    std::function<void(std::int64_t)> steps;  // submits this many steps
  };
  const auto repeat = [](std::int64_t steps, const auto& step) {
    for (std::int64_t i = 0; i < steps; ++i) step();
  };
  const auto side_by_side = [&](std::int64_t steps, void (Trainee::*step)()) {
    second.start([&, steps, step] { repeat(steps, [&] { (b.*step)(); }); });
    repeat(steps, [&] { (a.*step)(); });
    second.join();
  };
  const std::vector<Variant> variants = {
      {"A alone", 1, 1, [&](std::int64_t steps) { repeat(steps, [&] { a.step(); }); }},
      {"B alone", 1, 1, [&](std::int64_t steps) { repeat(steps, [&] { b.step(); }); }},
      {"both, one stream", 1, 1,
       [&](std::int64_t steps) { repeat(steps, [&] { (a.step(), b.step()); }); }},
      {"both, one stream, two threads", 1, 2,
       [&](std::int64_t steps) { side_by_side(steps, &Trainee::step); }},
      {"both, two streams", 2, 1,
       [&](std::int64_t steps) {
         repeat(steps, [&] { (a.step_in_own_stream(), b.step_in_own_stream()); });
       }},
      {"both, two streams, two threads", 2, 2,
       [&](std::int64_t steps) { side_by_side(steps, &Trainee::step_in_own_stream); }},
  };

  constexpr int kWarmup = 20;
  double longest = 0;  // seconds of the longest step or pair
  for (const Variant& variant : variants) {
    variant.steps(kWarmup);
    synchronize(device);
    const auto start = Clock::now();
    variant.steps(kWarmup);
    synchronize(device);
    longest = std::max(longest, seconds_since(start) / kWarmup);
  }
  const std::int64_t block = options.steps ? options.steps : bench::block_steps(longest);
  const int blocks = bench::block_count(longest);
  // The variants alternate block by block, so that all of them see the same machine load.
  std::vector<std::vector<double>> times(variants.size());
  for (int round = 0; round < blocks; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const auto start = Clock::now();
      variants[i].steps(block);
      synchronize(device);
      times[i].push_back(1e3 * seconds_since(start) / static_cast<double>(block));
    }
  }

  const double alone = median(times[0]) + median(times[1]);
  std::printf("%s (%s): two MLPs of width %lld, batch %lld, %lld steps a block, %d blocks\n",
              to_string(device).c_str(), device.name().c_str(),
              static_cast<long long>(options.width), static_cast<long long>(options.batch),
              static_cast<long long>(block), blocks);
  std::printf("  %-32s %10s %10s %18s\n", "", "median ms", "min ms", "of A + B alone");
  std::vector<bench::JsonObject> results;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const bench::Timing timing = bench::timing_of(times[i], block);
    bench::JsonObject result;
    result.add("workload", "mlp").add("width", options.width).add("batch", options.batch);
    result.add("variant", variants[i].name).add("streams", variants[i].streams);
    result.add("threads", variants[i].threads).add(timing);
    std::printf("  %-32s %10.4f %10.4f", variants[i].name, timing.median_ms, timing.min_ms);
    if (i >= 2) {
      std::printf(" %18.3f", timing.median_ms / alone);
      result.add("of_both_alone", timing.median_ms / alone);
    }
    std::printf("\n");
    results.push_back(result);
  }
  std::printf("  losses: A %.4f to %.4f, B %.4f to %.4f\n", a_before, a.loss(), b_before, b.loss());
  if (!options.json.empty())
    bench::write_json(options.json, "streams", command, device, false, results);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1 && std::string_view(argv[1]) == "--streams") {
    measure_streams(parse_stream_options(argc, argv), bench::command_line(argc, argv));
    return 0;
  }
  const Device device = Device::parse(argc > 1 ? argv[1] : "best");
  const std::int64_t megabytes = argc > 2 ? std::atoll(argv[2]) : 64;
  const double wanted = argc > 3 ? std::atof(argv[3]) : 2;
  measure(device, megabytes, wanted);
} catch (const UsageError& error) {
  std::fprintf(stderr, "volta_overlap: %s\n%s", error.what(), kUsage);
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
