// The CUDA backend: its devices by number, and the library's entry point.
#include "backend/backend.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/attention.h"
#include "backend/cuda/device.h"
#include "backend/cuda/driver.h"
#include "backend/cuda/executable.h"
#include "core/build_stamp.h"
#include "platform/env.h"
#include "volta/error.h"
#include "volta/export.h"

namespace volta::cuda {
namespace {

CUdeviceptr pointer(const Address& address) {
  return reinterpret_cast<std::uintptr_t>(address.base) + address.offset;
}

// Dense tensor-core operations per clock and multiprocessor, from the data sheets of data-centre
// devices; 0 if unknown.
double half_operations(int compute_capability) {
  switch (compute_capability) {
    case 70:
    case 75:
      return 1024;
    case 80:
      return 2048;
    case 86:
    case 89:
      return 1024;
    case 90:
      return 4096;
    case 100:
    case 103:
      return 8192;
    default:
      return 0;
  }
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(std::unique_ptr<Libraries> libraries)
      : libraries_(std::move(libraries)),
        devices_(static_cast<std::size_t>(libraries_->device_count)) {}

  int device_count() const override { return libraries_->device_count; }

  std::string device_name(int device) const override {
    std::array<char, 256> name{};
    check(driver().cuDeviceGetName(name.data(), static_cast<int>(name.size()), handle(device)),
          device);
    return name.data();
  }

  bool device_is_gpu(int) const override { return true; }

  std::uint64_t device_memory(int device) const override {
    std::size_t bytes = 0;
    check(driver().cuDeviceTotalMem(&bytes, handle(device)), device);
    return bytes;
  }

  bool supports(int, DType) const override { return true; }
  bool multiplies_halves(int, DType) const override { return libraries_->has_cublas; }

  DeviceFigures figures(int device) const override {
    const auto attribute = [&](CUdevice_attribute which) {
      int value = 0;
      check(driver().cuDeviceGetAttribute(&value, which, handle(device)), device);
      return static_cast<double>(value);
    };
    constexpr double kHertz = 1e3;           // clocks are in kHz
    constexpr double kTransfers = 2;         // per clock: double data rate
    constexpr double kOperations = 2 * 128;  // per clock and multiprocessor: multiply and add
    const double clocks = kHertz * attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) *
                          attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    const double halves = half_operations(
        10 * static_cast<int>(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)) +
        static_cast<int>(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)));
    return {.bytes_per_second = kTransfers * kHertz *
                                attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                                attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8,
            .operations_per_second = kOperations * clocks,
            .tf32_per_second = halves / 2 * clocks,
            .halves_per_second = halves * clocks};
  }

  std::string fingerprint(int device) const override;

  std::optional<std::uint64_t> free_memory(int device) override {
    const std::shared_ptr<Device> on = this->device(device);
    on->context().ensure_alive();
    const ContextScope scope(on->context());
    std::size_t free = 0, total = 0;
    check(driver().cuMemGetInfo(&free, &total), device);
    return free;
  }

  std::vector<LibraryInfo> libraries() const override;

  Address allocate(int device, std::size_t bytes) override {
    return {std::bit_cast<void*>(this->device(device)->allocate(bytes)), 0};
  }

  void release(int device, Address memory) override {
    this->device(device)->release(pointer(memory));
  }

  void upload(int device, Address destination, const void* source, std::size_t bytes) override {
    this->device(device)->upload(pointer(destination), source, bytes);
  }

  void download(int device, void* destination, Address source, std::size_t bytes) override {
    this->device(device)->download(destination, pointer(source), bytes);
  }

  void copy(int device, Address destination, Address source, std::size_t bytes) override {
    this->device(device)->copy(pointer(destination), pointer(source), bytes);
  }

  bool has_streams(int) const override { return true; }
  std::shared_ptr<const StreamEvent> record_event(int device, Stream stream) override {
    const std::shared_ptr<Device> on = this->device(device);
    on->context().ensure_alive();
    return std::make_shared<CudaStreamEvent>(on, stream);
  }
  void wait_for_event(int /*device*/, Stream stream, const StreamEvent& event) override {
    static_cast<const CudaStreamEvent&>(event).wait_in(stream);
  }
  void upload_in_copy_stream(int device, Address destination, const void* source,
                             std::size_t bytes) override {
    this->device(device)->upload_in_copy_stream(pointer(destination), source, bytes);
  }
  void download_in_copy_stream(int device, void* destination, Address source,
                               std::size_t bytes) override {
    this->device(device)->download_in_copy_stream(destination, pointer(source), bytes);
  }
  bool take_sent(int device, void* destination, Address source, std::size_t bytes) override {
    return this->device(device)->take_sent(destination, pointer(source), bytes);
  }
  void begin_download(int device, void* destination, Address source, std::size_t bytes) override {
    this->device(device)->begin_download(destination, pointer(source), bytes);
  }

  void* allocate_pinned(int device, std::size_t bytes) override {
    const Context& context = this->device(device)->context();
    const ContextScope scope(context);
    void* memory = nullptr;
    const CUresult status = driver().cuMemHostAlloc(
        &memory, bytes, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
    return status == CUDA_SUCCESS ? memory : nullptr;
  }

  void release_pinned(int device, void* memory) noexcept override {
    const Context& context = this->device(device)->context();
    const ContextScope scope(context, std::nothrow);
    driver().cuMemFreeHost(memory);
  }

  CallSupport takes(int device, const plan::Step& step) override {
    if (const auto* product = std::get_if<plan::MatmulStep>(&step))
      return {.taken = libraries_->has_cublas && product->k > 0 && takes_epilogue(*product)};
    const std::shared_ptr<Device> on = this->device(device);
    on->context().ensure_alive();
    if (const auto* attention = std::get_if<plan::AttentionStep>(&step);
        attention != nullptr && attention->by == plan::AttentionStep::By::Kernels) {
      return attention_support(*attention, on->context().compute_capability());
    }
    const ContextScope scope(on->context());
    const auto found = on->cudnn().call(step);
    if (found == nullptr) return {};
    return {.taken = true,
            .workspace_bytes = CudnnLibrary::workspace_bytes(*found),
            .weights_channels_last = true};
  }

  std::unique_ptr<Executable> prepare(int device, const plan::PlanSteps& steps) override {
    const std::shared_ptr<Device> on = this->device(device);
    on->context().ensure_alive();
    const ContextScope scope(on->context());
    return std::make_unique<CudaExecutable>(on, steps);
  }

  std::size_t program_count(int device) const override {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<Device>& opened = devices_.at(static_cast<std::size_t>(device));
    return opened == nullptr ? 0 : opened->modules().count();
  }
  SharedBytes shared_bytes(int device) const override {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<Device>& opened = devices_.at(static_cast<std::size_t>(device));
    if (opened == nullptr) return {};
    return {.kernels = opened->modules().bytes(),
            .libraries = opened->matmuls().bytes() + opened->cudnn().bytes()};
  }
  void drop_unused(int device) override {
    const std::shared_ptr<Device> opened = [&] {
      const std::lock_guard lock(mutex_);
      return devices_.at(static_cast<std::size_t>(device));
    }();
    if (opened == nullptr) return;
    const ContextScope scope(opened->context(), std::nothrow);
    opened->modules().drop_unused();
    opened->matmuls().drop_unused();
    opened->cudnn().drop_unused();
  }

  void flush_profile(int device) override {
    const std::shared_ptr<Device> opened = [&] {
      const std::lock_guard lock(mutex_);
      return devices_.at(static_cast<std::size_t>(device));
    }();
    if (opened == nullptr) return;
    opened->context().ensure_alive();
    const ContextScope scope(opened->context());
    opened->timeline().flush();
  }
  // NVIDIA's tools set this variable to load themselves into NVTX.
  bool shows_ranges() const override {
    static const bool watched = platform::environment("NVTX_INJECTION64_PATH").has_value();
    return watched;
  }
  void begin_range(const char* name) override { nvtxRangePushA(name); }
  void end_range() override { nvtxRangePop(); }

  void synchronize(int device) override { this->device(device)->synchronize(); }

 private:
  const Driver& driver() const { return libraries_->driver; }

  void check(CUresult status, int device) const {
    if (status == CUDA_SUCCESS) return;
    throw BackendError(fmt::format("cuda:{}: {}", device, describe(driver(), status)));
  }

  CUdevice handle(int device) const {
    CUdevice handle = 0;
    check(driver().cuDeviceGet(&handle, device), device);
    return handle;
  }

  // The device, opened on first use.
  std::shared_ptr<Device> device(int index) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Device>& device = devices_.at(static_cast<std::size_t>(index));
    if (device == nullptr) device = std::make_shared<Device>(*libraries_, index);
    return device;
  }

  const std::unique_ptr<Libraries> libraries_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Device>> devices_;
};

// 12040 -> "12.4"
std::string driver_version(const Driver& driver) {
  int version = 0;
  if (driver.cuDriverGetVersion(&version) != CUDA_SUCCESS) return "unknown";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// 120305 -> "12.3.5"
std::string cublas_version(const CublasLt& cublas) {
  const std::size_t version = cublas.cublasLtGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string CudaBackend::fingerprint(int device) const {
  int major = 0, minor = 0;
  check(driver().cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                      handle(device)),
        device);
  check(driver().cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                      handle(device)),
        device);
  return fmt::format("{}; compute capability {}.{}; driver {}; NVRTC {}.{}", device_name(device),
                     major, minor, driver_version(driver()), libraries_->nvrtc_major,
                     libraries_->nvrtc_minor);
}

std::vector<LibraryInfo> CudaBackend::libraries() const {
  const Libraries& found = *libraries_;
  return {{.name = "CUDA driver", .version = driver_version(found.driver)},
          {.name = "NVRTC", .version = fmt::format("{}.{}", found.nvrtc_major, found.nvrtc_minor)},
          {.name = "cuBLASLt",
           .version = found.has_cublas ? cublas_version(found.cublas) : "",
           .note = found.cublas_missing},
          cudnn_library()};
}

}  // namespace
}  // namespace volta::cuda

extern "C" VOLTA_BACKEND_API volta::Backend* volta_create_backend(const char* stamp,
                                                                  const char** why) {
  static thread_local std::string reason;  // outlives the call
  const auto refuse = [why](std::string text) {
    reason = std::move(text);
    *why = reason.c_str();
    return nullptr;
  };
  if (std::strcmp(stamp, volta::kBuildStamp) != 0) {
    return refuse(
        fmt::format("the CUDA backend is of another build: its stamp is {}, the library's {}",
                    volta::kBuildStamp, stamp));
  }
  auto libraries = std::make_unique<volta::cuda::Libraries>();
  std::string missing;
  if (!volta::cuda::open_libraries(*libraries, &missing)) return refuse(std::move(missing));
  return new volta::cuda::CudaBackend(std::move(libraries));
}
