// How long work and moves take: measured once a machine, kept beside the kernels.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "core/registry.h"
#include "graph/node.h"
#include "graph/placement.h"
#include "kernel/emit.h"
#include "volta/autograd.h"
#include "volta/creation.h"
#include "volta/execution.h"
#include "volta/log.h"
#include "volta/ops.h"
#include "volta/placement.h"
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
  TimeCurve curve;
  for (double amount = 1; amount < 1e16; amount *= 4)
    curve.points.emplace_back(amount, fixed_seconds + amount / amount_per_second);
  return curve;
}

namespace {

// The curves by name, in the order in which they are kept.
template <class Figures>
auto curves_of(Figures& figures) {
  return std::array{std::pair{"cpu memory", &figures.cpu.memory},
                    std::pair{"cpu products", &figures.cpu.products},
                    std::pair{"gpu memory", &figures.gpu.memory},
                    std::pair{"gpu products", &figures.gpu.products},
                    std::pair{"upload", &figures.upload},
                    std::pair{"download", &figures.download}};
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const PlacementFigures& figures) {
  for (const auto& [name, curve] : curves_of(figures)) {
    out << fmt::format("{:<13}", name);
    for (const auto& [amount, seconds] : curve->points)
      out << fmt::format("  {:.3g}: {:.1f} us", amount, seconds * 1e6);
    out << '\n';
  }
  return out;
}

namespace graph {
namespace {

using Clock = std::chrono::steady_clock;

// The shortest of several times.
template <class Body>
double seconds_of(const Body& body) {
  body();  // kernels, plans, memory
  body();
  double best = std::numeric_limits<double>::infinity(), total = 0;
  for (int round = 0; round < 100 && (round < 5 || total < 5e-3); ++round) {
    const auto start = Clock::now();
    body();
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, took);
    total += took;
  }
  return std::max(best, 1e-9);
}

DeviceTimes measured_times(Device device, std::int64_t largest_matrix) {
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
  }
  for (std::int64_t n = 32; n <= largest_matrix; n *= 2) {
    const Tensor a = rand({n, n}, {.device = device}).eval();
    times.products.points.emplace_back(std::pow(static_cast<double>(n), 3),
                                       run([&] { return a.matmul(a); }));
  }
  return times;
}

PlacementFigures measured(DeviceEntry& gpu) {
  const NoGrad no_grad;
  const ExecutionContext plain({.placement = Placement::as_written});
  PlacementFigures figures;
  figures.cpu = measured_times(Device::cpu(), 1024);
  figures.gpu = measured_times(gpu.device, 2048);
  for (const int log : {12, 16, 20, 24, 26}) {
    const std::size_t bytes = std::size_t{1} << log;
    std::vector<std::byte> host(bytes);
    const Tensor there =
        rand({static_cast<std::int64_t>(bytes / 4)}, {.device = gpu.device}).eval();
    const Address address = node_of(there)->buffer->address;
    const std::lock_guard guard(gpu.lock);
    const auto amount = static_cast<double>(bytes);
    figures.upload.points.emplace_back(amount, seconds_of([&] {
                                         gpu.backend.upload(gpu.index, address, host.data(), bytes);
                                         gpu.backend.synchronize(gpu.index);
                                       }));
    figures.download.points.emplace_back(
        amount, seconds_of([&] { gpu.backend.download(gpu.index, host.data(), address, bytes); }));
  }
  return figures;
}

std::string written(const PlacementFigures& figures) {
  std::string text;
  for (const auto& [name, curve] : curves_of(figures)) {
    for (const auto& [amount, seconds] : curve->points)
      text += fmt::format("{} {} ", amount, seconds);
    text += '\n';
  }
  return text;
}

// False where the text is not what `written` gives.
bool read(const std::string& text, PlacementFigures& figures) {
  std::istringstream lines(text);
  std::string line;
  for (const auto& [name, curve] : curves_of(figures)) {
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

std::atomic<int> measurements{0};

PlacementFigures remembered_or_measured(DeviceEntry& gpu) {
  const std::string machine = Device::cpu().name() + " / " + gpu.device.name() + " / " +
                              std::to_string(num_threads()) + " threads";
  const std::string key =
      kernel::KernelCache::key(to_string(gpu.device), "placement", machine, "1");
  std::string text;
  PlacementFigures figures;
  if (kernel::KernelCache::instance().load(key, text) && read(text, figures)) return figures;
  // On a thread of its own: what the caller has recorded and its settings stay as they are.
  std::exception_ptr failure;
  std::thread([&] {
    try {
      figures = measured(gpu);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  measurements.fetch_add(1);
  kernel::KernelCache::instance().store(key, written(figures));
  return figures;
}

struct Known {
  std::recursive_mutex lock;
  std::map<const DeviceEntry*, const Reckoning*> current;
  std::vector<std::unique_ptr<const Reckoning>> all;  // threads may still go by earlier ones
};
Known& known() {
  static auto* table = new Known;
  return *table;
}
std::atomic<std::uint32_t> edition{0};

const Reckoning& keep(const DeviceEntry& gpu, PlacementFigures figures) {
  Known& table = known();
  const std::lock_guard guard(table.lock);
  table.all.push_back(std::make_unique<const Reckoning>(std::move(figures)));
  return *(table.current[&gpu] = table.all.back().get());
}

// The greatest amount for which `seconds` stays below a limit.
template <class Seconds>
double amount_below(double limit, const Seconds& seconds) {
  double amount = 0;
  for (double next = 1; next < 1e18 && seconds(next) <= limit; next *= 1.25) amount = next;
  return amount;
}

// A kernel of a plan that runs anyway.
constexpr double kLaunchSeconds = 2e-6;

}  // namespace

Reckoning::Reckoning(PlacementFigures given) : figures(std::move(given)) {
  const double limit = figures.download.seconds(0);
  stay_bytes = amount_below(limit, [&](double bytes) { return marginal_gpu(bytes, 0); });
  stay_multiplications = amount_below(limit, [&](double count) { return marginal_gpu(0, count); });
  small_bytes = amount_below(figures.gpu.memory.seconds(0),
                             [&](double bytes) { return figures.cpu.memory.seconds(bytes); });
  small_multiplications =
      amount_below(std::max(figures.gpu.memory.seconds(0), figures.gpu.products.seconds(0)),
                   [&](double count) { return figures.cpu.products.seconds(count); });
}

double Reckoning::whole(const DeviceTimes& times, double bytes, double multiplications) {
  const double memory = times.memory.seconds(bytes);
  return multiplications > 0 ? std::max(memory, times.products.seconds(multiplications)) : memory;
}

double Reckoning::marginal_gpu(double bytes, double multiplications) const {
  const DeviceTimes& times = figures.gpu;
  const double memory = times.memory.seconds(bytes) - times.memory.seconds(0);
  const double products =
      multiplications > 0 ? times.products.seconds(multiplications) - times.products.seconds(0) : 0;
  return kLaunchSeconds + std::max(memory, products);
}

const Reckoning& reckoning(DeviceEntry& gpu) {
  Known& table = known();
  const std::lock_guard guard(table.lock);
  const auto found = table.current.find(&gpu);
  return found != table.current.end() ? *found->second : keep(gpu, remembered_or_measured(gpu));
}

std::uint32_t figures_edition() { return edition.load(std::memory_order_acquire); }
int placement_measurements() { return measurements.load(); }

}  // namespace graph

PlacementFigures placement_figures(Device gpu) {
  return graph::reckoning(device_entry(gpu)).figures;
}

void set_placement_figures(Device gpu, PlacementFigures figures) {
  graph::keep(device_entry(gpu), std::move(figures));
  graph::edition.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace volta
