// Naming, finding and describing devices.
#include "volta/device.h"

#include <charconv>
#include <mutex>
#include <ostream>

#include "backend/fork_guard.h"
#include "backend/registry.h"
#include "core/log_once.h"
#include "platform/env.h"
#include "volta/error.h"

namespace volta {
namespace {

// The device if it is present, otherwise the fallback that VOLTA_FALLBACK allows.
Device present_or_fallback(DeviceType type, int index) {
  const std::string problem = why_unusable(type, index);
  if (problem.empty()) return DeviceAccess::make(type, index);
  if (platform::environment("VOLTA_FALLBACK") != "cpu") throw DeviceError(problem);
  log_once("fallback " + problem, LogLevel::warning,
           problem + "; using the CPU (VOLTA_FALLBACK=cpu)");
  return Device::cpu();
}

std::string why_no_gpu() {
  if (has_cpu_only()) return "this process was forked after its parent had used a device";
  const auto reason = [](DeviceType type) {
    return device_count(type) > 0 ? std::string("none of its devices is a GPU") : why_absent(type);
  };
  return "CUDA: " + reason(DeviceType::cuda) + "; OpenCL: " + reason(DeviceType::opencl);
}

Device gpu_or_cpu(const char* asked, LogLevel level) {
  if (const auto gpu = Device::gpu()) return *gpu;
  if (platform::environment("VOLTA_DEVICE") == "cpu") return Device::cpu();
  log_once(std::string("no gpu for ") + asked, level,
           std::string("device ") + asked + ": no GPU found, using the CPU (" + why_no_gpu() + ")");
  return Device::cpu();
}

// The device number in `text`: "cuda" -> 0, "cuda:2" -> 2; nothing if `text` does not name this
// family.
std::optional<int> index_in_family(std::string_view text, DeviceType type) {
  const std::string_view family = family_name(type);
  if (!text.starts_with(family)) return std::nullopt;
  text.remove_prefix(family.size());
  if (text.empty()) return 0;
  if (text[0] != ':' || text.size() == 1 || text[1] == '-') return std::nullopt;
  int index = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + 1, end, index);
  if (failure != std::errc() || stop != end) return std::nullopt;
  return index;
}

// The device that VOLTA_DEVICE names; nothing if it is unset or "auto". With "auto:opencl:0",
// placement may choose that device.
std::optional<Device> named_by_environment() {
  const std::string value = platform::environment("VOLTA_DEVICE").value_or("auto");
  const std::string text = value.starts_with("auto:") ? value.substr(5) : value;
  if (value == "auto" || text == "gpu" || text == "best") return std::nullopt;
  try {
    return Device::parse(text);
  } catch (const ArgumentError&) {
    throw ArgumentError("VOLTA_DEVICE=" + value +
                        " names no device; expected cpu, cuda[:N], opencl[:N], gpu, best, "
                        "auto or auto:DEVICE");
  } catch (const DeviceError& error) {
    throw DeviceError("VOLTA_DEVICE=" + value + ": " + error.what());
  }
}

}  // namespace

std::string_view family_name(DeviceType type) {
  constexpr std::string_view names[] = {"cpu", "cuda", "opencl"};
  return names[static_cast<int>(type)];
}

Device Device::cuda(int index) { return present_or_fallback(DeviceType::cuda, index); }

Device Device::opencl(int index) { return present_or_fallback(DeviceType::opencl, index); }

std::optional<Device> Device::gpu() {
  if (const auto named = named_by_environment()) {
    return named->is_gpu() ? named : std::nullopt;
  }
  if (has_cpu_only()) return std::nullopt;
  for (const DeviceType type : {DeviceType::cuda, DeviceType::opencl}) {
    for (int index = 0; index < device_count(type); ++index) {
      const DeviceEntry& entry = device_entry(DeviceAccess::make(type, index));
      if (entry.backend.device_is_gpu(entry.index)) return entry.device;
    }
  }
  return std::nullopt;
}

Device Device::best() { return gpu_or_cpu("best", LogLevel::info); }

Device Device::parse(std::string_view text) {
  if (text == "cpu") return cpu();
  if (text == "gpu") return gpu_or_cpu("gpu", LogLevel::warning);
  if (text == "best") return best();
  if (const auto index = index_in_family(text, DeviceType::cuda)) return cuda(*index);
  if (const auto index = index_in_family(text, DeviceType::opencl)) return opencl(*index);
  throw ArgumentError("device: \"" + std::string(text) +
                      "\" is not a device; expected cpu, cuda[:N], opencl[:N], gpu or best");
}

std::string Device::name() const {
  const DeviceEntry& entry = device_entry(*this);
  return entry.backend.device_name(entry.index);
}

std::uint64_t Device::total_memory() const {
  const DeviceEntry& entry = device_entry(*this);
  return entry.backend.device_memory(entry.index);
}

bool Device::supports(DType dtype) const {
  const DeviceEntry& entry = device_entry(*this);
  return entry.backend.supports(entry.index, dtype);
}

DeviceCapabilities Device::capabilities() const {
  const DeviceEntry& entry = device_entry(*this);
  const DeviceFigures figures = entry.backend.figures(entry.index);
  return {.gpu = entry.backend.device_is_gpu(entry.index),
          .f64 = entry.backend.supports(entry.index, DType::f64),
          .half_products = entry.backend.multiplies_halves(entry.index, DType::f16) &&
                           entry.backend.multiplies_halves(entry.index, DType::bf16),
          .bytes_per_second = figures.bytes_per_second,
          .operations_per_second = figures.operations_per_second};
}

std::string to_string(Device device) {
  std::string text(family_name(device.type()));
  if (!device.is_cpu()) text += ":" + std::to_string(device.index());
  return text;
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

std::vector<Device> devices() {
  std::vector<Device> present;
  for (const DeviceType type : {DeviceType::cpu, DeviceType::cuda, DeviceType::opencl})
    for (int index = 0; index < device_count(type); ++index)
      present.push_back(DeviceAccess::make(type, index));
  return present;
}

bool is_gpu_available() { return Device::gpu().has_value(); }

}  // namespace volta
