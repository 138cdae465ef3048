// Devices: where tensors live and operations run.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "volta/dtype.h"
#include "volta/export.h"

namespace volta {

enum class DeviceType : std::uint8_t { cpu, cuda, opencl };

// The capabilities of a device.
struct DeviceCapabilities {
  bool gpu = false;            // a GPU; an OpenCL device may also be a CPU
  bool f64 = false;            // supports f64
  bool half_products = false;  // multiplies f16 and bf16 matrices without converting them first
  // Peak figures that the driver reports; 0 if unknown.
  double bytes_per_second = 0;
  double operations_per_second = 0;  // for f32
};

class VOLTA_API Device {
 public:
  Device() = default;  // the CPU

  static Device cpu() { return {}; }
  // These functions throw DeviceError with the reason if the device is absent. With
  // VOLTA_FALLBACK=cpu they return the CPU and log a warning instead.
  static Device cuda(int index = 0);
  static Device opencl(int index = 0);
  // Returns the first GPU (CUDA devices, then OpenCL GPUs), or nothing. VOLTA_DEVICE=cuda:1 (or
  // cpu, opencl:0, ...) names the device that gpu() and best() return instead.
  static std::optional<Device> gpu();
  // Returns the GPU if there is one, otherwise the CPU with one message at level info.
  static Device best();
  // Accepts "cpu", "cuda", "cuda:1", "opencl:0", "gpu" (the CPU with one message without a GPU),
  // "best".
  static Device parse(std::string_view text);

  DeviceType type() const { return type_; }
  int index() const { return index_; }
  bool is_cpu() const { return type_ == DeviceType::cpu; }
  bool is_gpu() const { return type_ != DeviceType::cpu; }  // belongs to a GPU family

  std::string name() const;            // the hardware's own name
  std::uint64_t total_memory() const;  // in bytes
  bool supports(DType dtype) const;
  DeviceCapabilities capabilities() const;

  friend bool operator==(Device a, Device b) { return a.type_ == b.type_ && a.index_ == b.index_; }

 private:
  Device(DeviceType type, int index) : type_(type), index_(static_cast<std::uint8_t>(index)) {}
  friend struct DeviceAccess;
  DeviceType type_ = DeviceType::cpu;
  std::uint8_t index_ = 0;
};

VOLTA_API std::string to_string(Device device);  // "cpu", "cuda:0"
VOLTA_API std::ostream& operator<<(std::ostream& out, Device device);

// Returns all devices present, the CPU first.
VOLTA_API std::vector<Device> devices();
VOLTA_API bool is_gpu_available();
// Waits until all submitted work of the device has finished.
VOLTA_API void synchronize(Device device);

}  // namespace volta

template <>
struct std::hash<volta::Device> {
  std::size_t operator()(volta::Device d) const noexcept {
    return static_cast<std::size_t>(d.type()) * 256 + static_cast<std::size_t>(d.index());
  }
};
