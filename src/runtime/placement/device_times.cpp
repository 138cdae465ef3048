// Measures devices and keeps the results in the disk cache.
#include "runtime/placement/device_times.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernel/cache.h"
#include "platform/fork.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/log.h"
#include "volta/ops.h"
#include "volta/random.h"

namespace volta {

double TimeCurve::seconds(double amount) const {
  if (points.empty()) return 0;
  if (amount <= points.front().first) return points.front().second;
  const auto& [most, longest] = points.back();
  if (amount >= most) return longest * amount / most;
  const auto above = std::upper_bound(
      points.begin(), points.end(), amount,
      [](double value, const std::pair<double, double>& point) { return value < point.first; });
  const auto& [a, s] = *(above - 1);
  const auto& [b, t] = *above;
  return s * std::pow(t / s, std::log(amount / a) / std::log(b / a));
}

TimeCurve TimeCurve::of(double fixed_seconds, double amount_per_second) {
  if (!(fixed_seconds >= 0) || !std::isfinite(fixed_seconds)) {
    throw ArgumentError(fmt::format(
        "TimeCurve::of: fixed_seconds must be finite and not negative, got {}", fixed_seconds));
  }
  if (!(amount_per_second > 0) || !std::isfinite(amount_per_second)) {
    throw ArgumentError(fmt::format(
        "TimeCurve::of: amount_per_second must be finite and positive, got {}", amount_per_second));
  }
  TimeCurve curve;
  for (double amount = 1; amount < 1e16; amount *= 4)
    curve.points.emplace_back(amount, fixed_seconds + amount / amount_per_second);
  return curve;
}

namespace graph {
namespace {

// The measurement ends with the first amount that takes longer; times of larger amounts are
// extrapolated in proportion.
constexpr double kLongestSeconds = 0.05;

// Makes the times rise with the amounts: a larger time for a smaller amount was a disturbance.
void smooth(TimeCurve& curve) {
  for (std::size_t i = curve.points.size(); i-- > 1;)
    curve.points[i - 1].second = std::min(curve.points[i - 1].second, curve.points[i].second);
}

DeviceTimes measured(Device device) {
  const DeviceEntry& entry = device_entry(device);
  const auto run = [&](const auto& body) {
    return seconds_of([&] {
      body().eval();
      entry.backend.synchronize(entry.index);
    });
  };
  DeviceTimes times;
  for (const int log : {10, 13, 16, 18, 20, 22, 24}) {
    const std::int64_t n = std::int64_t{1} << log;
    const Tensor x = rand({n}, {.device = device}).eval();
    times.memory.points.emplace_back(8.0 * static_cast<double>(n), run([&] { return x * 2 + 1; }));
    times.functions.points.emplace_back(static_cast<double>(n), run([&] { return x.tanh(); }));
    if (times.functions.points.back().second > kLongestSeconds) break;
  }
  for (std::int64_t n = 32; n <= 2048; n *= 2) {
    const Tensor a = rand({n, n}, {.device = device}).eval();
    times.products.points.emplace_back(std::pow(static_cast<double>(n), 3),
                                       run([&] { return a.matmul(a); }));
    if (times.products.points.back().second > kLongestSeconds / 4) break;
  }
  return times;
}

std::string written(std::initializer_list<TimeCurve*> curves) {
  std::string text;
  for (const TimeCurve* curve : curves) {
    for (const auto& [amount, seconds] : curve->points)
      text += fmt::format("{} {} ", amount, seconds);
    text += '\n';
  }
  return text;
}

// Parses the text that `written` returns; false if it is malformed.
bool read(const std::string& text, std::initializer_list<TimeCurve*> curves) {
  std::istringstream lines(text);
  std::string line;
  for (TimeCurve* curve : curves) {
    curve->points.clear();
    if (!std::getline(lines, line)) return false;
    std::istringstream words(line);
    double amount = 0, seconds = 0, last = 0;
    while (words >> amount >> seconds) {
      if (!(amount > last) || !(seconds > 0)) return false;
      curve->points.emplace_back(last = amount, seconds);
    }
    if (curve->points.size() < 2) return false;
  }
  return true;
}

std::atomic<int> measured_so_far{0};

struct Known {
  platform::ForkMutex lock;
  std::map<const DeviceEntry*, DeviceTimes> times;
};
Known& known() {
  static auto* table = new Known;
  return *table;
}

// The highest rate among the amounts from `least` on, or that of the largest amount if all are
// smaller.
double best_rate(const TimeCurve& curve, double least) {
  double best = 0;
  for (const auto& [amount, seconds] : curve.points) {
    if (amount >= least || amount == curve.points.back().first)
      best = std::max(best, amount / seconds);
  }
  return best;
}

bool lacks_figures(const DeviceEntry& entry) {
  return entry.backend.figures(entry.index).bytes_per_second == 0;
}

}  // namespace

void recall_or_measure(const char* what, Device device, std::initializer_list<TimeCurve*> curves,
                       const std::function<void()>& measure) {
  const std::string machine =
      fmt::format("{} / {} / {} threads", Device::cpu().name(), device.name(), num_threads());
  const std::string key = kernel::KernelCache::key(to_string(device), what, machine, "2");
  std::string text;
  if (kernel::KernelCache::instance().load(key, text) && read(text, curves)) return;
  std::exception_ptr failure;
  std::thread([&] {
    try {
      const NoGrad no_grad;
      const ExecutionContext plain({.placement = Placement::as_written});
      measure();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  for (TimeCurve* curve : curves) smooth(*curve);
  measured_so_far.fetch_add(1);
  kernel::KernelCache::instance().store(key, written(curves));
}

int measurements() { return measured_so_far.load(); }

DeviceTimes device_times(Device device) {
  const DeviceEntry& entry = device_entry(device);
  const std::lock_guard guard(known().lock);
  const auto found = known().times.find(&entry);
  if (found != known().times.end()) return found->second;
  DeviceTimes times;
  recall_or_measure("times", device, {&times.memory, &times.products, &times.functions},
                    [&] { times = measured(device); });
  known().times.emplace(&entry, times);
  return times;
}

DeviceFigures measured_figures(const DeviceEntry& entry, double bytes) {
  const std::lock_guard guard(known().lock);
  const auto found = known().times.find(&entry);
  if (found == known().times.end()) return {};
  const DeviceTimes& times = found->second;
  return {.bytes_per_second = best_rate(times.memory, bytes),
          .operations_per_second = 2 * best_rate(times.products, 0)};
}

void prepare_figures() {
  std::vector<Device> lacking;
  for_each_used_device([&](DeviceEntry& entry) {
    const std::lock_guard guard(entry.lock);
    if (entry.runtime != nullptr && lacks_figures(entry)) lacking.push_back(entry.device);
  });
  for (const Device device : lacking) {
    try {
      device_times(device);
    } catch (const Error& error) {
      log(LogLevel::debug,
          fmt::format("{}: shares of its peak are not known: {}", to_string(device), error.what()));
    }
  }
}

}  // namespace graph
}  // namespace volta
