// The cost figures of placement: measured, nominal or set by the user.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/registry.h"
#include "graph/record/node.h"
#include "platform/fork.h"
#include "runtime/placement/device_times.h"
#include "runtime/placement/placement.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/log.h"
#include "volta/ops.h"
#include "volta/placement.h"
#include "volta/random.h"

namespace volta {

namespace {

// The curves and their names, in the order in which they are printed.
template <class Figures>
auto curves_of(Figures& figures) {
  return std::array{std::pair{"cpu memory", &figures.cpu.memory},
                    std::pair{"cpu products", &figures.cpu.products},
                    std::pair{"cpu functions", &figures.cpu.functions},
                    std::pair{"gpu memory", &figures.gpu.memory},
                    std::pair{"gpu products", &figures.gpu.products},
                    std::pair{"gpu functions", &figures.gpu.functions},
                    std::pair{"upload", &figures.upload},
                    std::pair{"download", &figures.download}};
}

[[noreturn]] void refuse(const char* name, const std::string& why) {
  throw ArgumentError(fmt::format("set_placement_figures: the curve \"{}\" {}", name, why));
}

// Throws ArgumentError if TimeCurve::seconds cannot use the curve.
void require_usable(const char* name, const TimeCurve& curve, bool may_be_empty) {
  if (curve.points.empty() && !may_be_empty) refuse(name, "has no points");
  double last = 0;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const auto& [amount, seconds] = curve.points[i];
    const auto is_positive = [](double value) { return value > 0 && std::isfinite(value); };
    if (!is_positive(amount) || !is_positive(seconds)) {
      refuse(name, fmt::format("says that {} takes {} s at point {}: both must be positive and "
                               "finite",
                               amount, seconds, i));
    }
    if (amount <= last)
      refuse(name, fmt::format("has {} after {} at point {}: amounts must rise", amount, last, i));
    last = amount;
  }
}

void require_gpu(const char* function, Device device) {
  if (!device.is_cpu()) return;
  throw ArgumentError(fmt::format(
      "{}: figures are of the CPU and another device, which must be named, got cpu", function));
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

// The transfer times of a device in both directions.
struct Moves {
  TimeCurve upload, download;
};

Moves measured_moves(DeviceEntry& gpu) {
  Moves moves;
  for (const int log : {12, 16, 20, 24, 26}) {
    const std::size_t bytes = std::size_t{1} << log;
    std::vector<std::byte> host(bytes);
    const Tensor there =
        rand({static_cast<std::int64_t>(bytes / 4)}, {.device = gpu.device}).eval();
    const Address address = node_of(there)->buffer->address;
    const std::lock_guard guard(gpu.lock);
    const auto amount = static_cast<double>(bytes);
    moves.upload.points.emplace_back(amount, seconds_of([&] {
                                       gpu.backend.upload(gpu.index, address, host.data(), bytes);
                                       gpu.backend.synchronize(gpu.index);
                                     }));
    moves.download.points.emplace_back(
        amount, seconds_of([&] { gpu.backend.download(gpu.index, host.data(), address, bytes); }));
  }
  return moves;
}

Moves moves_of(DeviceEntry& gpu) {
  Moves moves;
  recall_or_measure("moves", gpu.device, {&moves.upload, &moves.download},
                    [&] { moves = measured_moves(gpu); });
  return moves;
}

PlacementFigures remembered_or_measured(DeviceEntry& gpu) {
  Moves moves = moves_of(gpu);
  return {device_times(Device::cpu()), device_times(gpu.device), std::move(moves.upload),
          std::move(moves.download)};
}

// The times of a device that was not measured, from its vendor's figures or else from typical ones.
DeviceTimes nominal_times(const DeviceEntry& entry, double start_seconds, DeviceFigures usual) {
  const DeviceFigures known = entry.backend.figures(entry.index);
  const double bytes = known.bytes_per_second > 0 ? known.bytes_per_second : usual.bytes_per_second;
  const double operations =
      known.operations_per_second > 0 ? known.operations_per_second : usual.operations_per_second;
  return {TimeCurve::of(start_seconds, bytes), TimeCurve::of(start_seconds, operations / 2),
          TimeCurve::of(start_seconds, bytes / 10)};
}

// Figures when memory runs out while measuring: curves that cannot be measured are estimated.
PlacementFigures without_measuring(DeviceEntry& gpu) {
  const auto or_else = [](const auto& measure, auto instead) {
    try {
      return measure();
    } catch (const OutOfMemory&) {
      return instead;
    }
  };
  constexpr double kBusBytes = 10e9;
  Moves moves = or_else([&] { return moves_of(gpu); },
                        Moves{TimeCurve::of(10e-6, kBusBytes), TimeCurve::of(15e-6, kBusBytes)});
  return {
      or_else([] { return device_times(Device::cpu()); },
              nominal_times(device_entry(Device::cpu()), 2e-6, {10e9, 40e9})),
      or_else([&] { return device_times(gpu.device); }, nominal_times(gpu, 15e-6, {400e9, 10e12})),
      std::move(moves.upload), std::move(moves.download)};
}

struct Known {
  platform::ForkRecursiveMutex lock;
  std::map<const DeviceEntry*, const CostModel*> current;
  std::set<const DeviceEntry*> unmeasured;  // devices that could not be measured for lack of memory
  // Never freed, because threads may still use earlier ones.
  std::vector<std::unique_ptr<const CostModel>> all;
};
Known& known() {
  static auto* table = new Known;
  return *table;
}
std::atomic<std::uint32_t> edition{0};

const CostModel& keep(const DeviceEntry& gpu, PlacementFigures figures) {
  Known& table = known();
  const std::lock_guard guard(table.lock);
  table.unmeasured.erase(&gpu);
  table.all.push_back(std::make_unique<const CostModel>(std::move(figures)));
  return *(table.current[&gpu] = table.all.back().get());
}

// The greatest amount for which `seconds` does not exceed the limit.
template <class Seconds>
double amount_below(double limit, const Seconds& seconds) {
  double amount = 0;
  for (double next = 1; next < 1e18 && seconds(next) <= limit; next *= 1.25) amount = next;
  return amount;
}

// The time of one more kernel in a plan that runs anyway.
constexpr double kLaunchSeconds = 2e-6;

}  // namespace

CostModel::CostModel(PlacementFigures given) : figures(std::move(given)) {
  const double limit = figures.download.seconds(0);
  stay_bytes = amount_below(limit, [&](double bytes) { return marginal_gpu(bytes, 0, 0); });
  stay_multiplications =
      amount_below(limit, [&](double count) { return marginal_gpu(0, count, 0); });
  small_bytes = amount_below(figures.gpu.memory.seconds(0),
                             [&](double bytes) { return figures.cpu.memory.seconds(bytes); });
  small_functions =
      amount_below(std::max(figures.gpu.memory.seconds(0), figures.gpu.functions.seconds(0)),
                   [&](double count) { return figures.cpu.functions.seconds(count); });
  small_multiplications =
      amount_below(std::max(figures.gpu.memory.seconds(0), figures.gpu.products.seconds(0)),
                   [&](double count) { return figures.cpu.products.seconds(count); });
}

double CostModel::whole(const DeviceTimes& times, double bytes, double multiplications,
                        double functions) {
  double seconds = times.memory.seconds(bytes);
  if (multiplications > 0) seconds = std::max(seconds, times.products.seconds(multiplications));
  if (functions > 0) seconds = std::max(seconds, times.functions.seconds(functions));
  return seconds;
}

double CostModel::marginal_gpu(double bytes, double multiplications, double functions) const {
  const auto more = [](const TimeCurve& curve, double amount) {
    return amount > 0 ? curve.seconds(amount) - curve.seconds(0) : 0;
  };
  const DeviceTimes& times = figures.gpu;
  return kLaunchSeconds +
         std::max({more(times.memory, bytes), more(times.products, multiplications),
                   more(times.functions, functions)});
}

const CostModel& cost_model(DeviceEntry& gpu) {
  Known& table = known();
  const std::lock_guard guard(table.lock);
  const auto found = table.current.find(&gpu);
  if (found != table.current.end()) return *found->second;
  try {
    return keep(gpu, remembered_or_measured(gpu));
  } catch (const OutOfMemory& error) {
    log(LogLevel::warning,
        fmt::format("{}: placement by cost goes by figures that were not measured: {}",
                    to_string(gpu.device),
                    std::string(error.what()).substr(0, std::string(error.what()).find('\n'))));
    const CostModel& nominal = keep(gpu, without_measuring(gpu));
    table.unmeasured.insert(&gpu);
    return nominal;
  }
}

namespace {
// Measures figures that are still estimated; throws if there is still no memory for that.
void measure_if_not(DeviceEntry& gpu) {
  Known& table = known();
  const std::lock_guard guard(table.lock);
  if (table.current.contains(&gpu) && !table.unmeasured.contains(&gpu)) return;
  keep(gpu, remembered_or_measured(gpu));
  edition.fetch_add(1, std::memory_order_acq_rel);
}
}  // namespace

std::uint32_t figures_edition() { return edition.load(std::memory_order_acquire); }

}  // namespace graph

PlacementFigures placement_figures(Device gpu) {
  require_gpu("placement_figures", gpu);
  graph::measure_if_not(device_entry(gpu));
  return graph::cost_model(device_entry(gpu)).figures;
}

void set_placement_figures(Device gpu, PlacementFigures figures) {
  require_gpu("set_placement_figures", gpu);
  for (const auto& [name, curve] : curves_of(figures)) {
    // Without this curve, functions are assumed to take as long as their memory traffic.
    const bool optional = curve == &figures.cpu.functions || curve == &figures.gpu.functions;
    require_usable(name, *curve, optional);
  }
  graph::keep(device_entry(gpu), std::move(figures));
  graph::edition.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace volta
