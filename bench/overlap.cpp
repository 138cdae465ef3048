// Whether copies hide behind computation.
//   volta_overlap [device [megabytes [milliseconds]]]
// A step of so many milliseconds (default 2) on a batch of so many MiB (default 64), with the batch
// already there, uploaded anew for every step from pageable and from page-locked memory, and with a
// result of the batch's size fetched after every step. Beside each: what it costs over the step
// alone, and what the copy takes by itself.
#include <volta/volta.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "measuring.h"

using namespace volta;
using bench::Clock;
using bench::median;
using bench::seconds_since;

namespace {

constexpr int kRounds = 9;

// Of the products that a step is made of, and calls that are timed together: what fits the device.
std::int64_t width_on(Device device) { return device.type() == DeviceType::cuda ? 2048 : 256; }
int steps_on(Device device) { return device.type() == DeviceType::cuda ? 25 : 5; }

class Step {
 public:
  explicit Step(Device device)
      : weight_(rand({width_on(device), width_on(device)}, {.device = device}) /
                static_cast<double>(width_on(device))) {
    weight_.eval();
  }
  // Products of the weight, then the batch.
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

// Milliseconds of one call, of many with one wait at the end.
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
  step.set_products(std::max(1, 1 + static_cast<int>((wanted - one) / each)));
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

}  // namespace

int main(int argc, char** argv) try {
  const Device device = Device::parse(argc > 1 ? argv[1] : "best");
  const std::int64_t megabytes = argc > 2 ? std::atoll(argv[2]) : 64;
  const double wanted = argc > 3 ? std::atof(argv[3]) : 2;
  measure(device, megabytes, wanted);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
