// The OpenCL backend and its entry point. Devices are listed at once but opened at their first use.
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/opencl/device_context.h"
#include "backend/opencl/device_info.h"
#include "backend/opencl/executable.h"
#include "backend/opencl/gemm_launch.h"
#include "core/build_stamp.h"
#include "volta/error.h"

namespace volta::opencl {
namespace {

class OpenClBackend final : public Backend {
 public:
  explicit OpenClBackend(std::vector<DeviceInfo> devices)
      : devices_(std::move(devices)), opened_(devices_.size()) {}

  int device_count() const override { return static_cast<int>(devices_.size()); }
  std::string device_name(int device) const override { return info(device).name; }
  bool device_is_gpu(int device) const override { return info(device).is_gpu(); }
  std::uint64_t device_memory(int device) const override { return info(device).memory; }
  bool supports(int device, DType dtype) const override {
    return dtype != DType::f64 || info(device).has_f64;
  }

  bool multiplies_halves(int, DType) const override { return true; }

  std::string fingerprint(int device) const override {
    return info(device).name + "; " + info(device).platform_name + "; " + info(device).versions;
  }
  std::vector<std::string> call_forms(int device, const plan::Step& step) const override {
    std::vector<std::string> names;
    const auto* product = std::get_if<plan::MatmulStep>(&step);
    if (product == nullptr || !info(device).is_gpu() || !takes_tiles(info(device), *product))
      return names;
    for (const GemmCut& cut : gemm_cuts(*product)) names.push_back(name_of(cut));
    return names;
  }

  std::vector<LibraryInfo> libraries() const override {
    std::vector<LibraryInfo> platforms;
    for (const DeviceInfo& device : devices_) {
      const bool known = std::ranges::any_of(platforms, [&](const LibraryInfo& platform) {
        return platform.name == device.platform_name;
      });
      if (!known)
        platforms.push_back({.name = device.platform_name, .version = device.platform_version});
    }
    return platforms;
  }

  Address allocate(int device, std::size_t bytes) override {
    const auto opened = open(device);
    return {opened->guarded([&] { return opened->try_allocate(bytes).release(); }), 0};
  }

  void release(int device, Address memory) override {
    const auto opened = open(device);
    opened->note_release();
    opened->guarded([&] { check(clReleaseMemObject(memory_of(memory)), "clReleaseMemObject"); });
  }

  void upload(int device, Address destination, const void* source, std::size_t bytes) override {
    const auto opened = open(device);
    opened->guarded([&] {
      set_span(*opened, profiling::Span::Kind::Upload, bytes);
      opened->write(memory_of(destination), destination.offset, source, bytes);
    });
  }

  void download(int device, void* destination, Address source, std::size_t bytes) override {
    if (bytes == 0) return;
    const auto opened = open(device);
    opened->guarded([&] {
      set_span(*opened, profiling::Span::Kind::Download, bytes);
      check_wait(
          clEnqueueReadBuffer(opened->queue(), memory_of(source), CL_TRUE, source.offset, bytes,
                              destination, 0, nullptr, opened->timeline().next_event()),
          "clEnqueueReadBuffer");
    });
  }

  void copy(int device, Address destination, Address source, std::size_t bytes) override {
    if (bytes == 0 || destination == source) return;
    const auto opened = open(device);
    opened->guarded([&] { enqueue_copy(*opened, destination, source, bytes); });
  }

  bool has_streams(int) const override { return true; }
  std::shared_ptr<const StreamEvent> record_event(int device, Stream stream) override {
    const auto opened = open(device);
    return opened->guarded([&] { return opened->record_event(stream); });
  }
  void wait_for_event(int device, Stream stream, const StreamEvent& event) override {
    const auto opened = open(device);
    opened->guarded([&] { opened->wait_for_event(stream, event); });
  }
  void upload_in_copy_stream(int device, Address destination, const void* source,
                             std::size_t bytes) override {
    const auto opened = open(device);
    opened->guarded([&] {
      opened->uploads().write(memory_of(destination), destination.offset, source, bytes);
    });
  }
  void download_in_copy_stream(int device, void* destination, Address source,
                               std::size_t bytes) override {
    const auto opened = open(device);
    opened->guarded(
        [&] { opened->reads().read(destination, memory_of(source), source.offset, bytes, true); });
  }
  void begin_download(int device, void* destination, Address source, std::size_t bytes) override {
    const auto opened = open(device);
    opened->guarded([&] {
      opened->downloads().read(destination, memory_of(source), source.offset, bytes, false);
    });
  }

  std::unique_ptr<Executable> prepare(int device, const plan::PlanSteps& steps) override {
    const auto opened = open(device);
    return opened->guarded([&] { return std::make_unique<OpenClExecutable>(opened, steps); });
  }

  std::size_t program_count(int device) const override {
    const std::lock_guard lock(mutex_);
    const auto& opened = opened_.at(static_cast<std::size_t>(device));
    return opened ? opened->compiler().program_count() : 0;
  }
  SharedBytes shared_bytes(int device) const override {
    const std::lock_guard lock(mutex_);
    const auto& opened = opened_.at(static_cast<std::size_t>(device));
    return {.kernels = opened ? opened->compiler().program_bytes() : 0};
  }
  void drop_unused(int device) override {
    const std::lock_guard lock(mutex_);
    const auto& opened = opened_.at(static_cast<std::size_t>(device));
    if (opened) opened->compiler().drop_unused();
  }

  void synchronize(int device) override {
    const auto opened = open(device);
    opened->guarded([&] { opened->synchronize(); });
  }

  void flush_profile(int device) override {
    const auto opened = [&] {
      const std::lock_guard lock(mutex_);
      return opened_.at(static_cast<std::size_t>(device));
    }();
    if (opened) opened->guarded([&] { opened->flush_profile(); });
  }

 private:
  const DeviceInfo& info(int device) const { return devices_.at(static_cast<std::size_t>(device)); }

  std::shared_ptr<DeviceContext> open(int device) {
    const std::lock_guard lock(mutex_);
    auto& opened = opened_.at(static_cast<std::size_t>(device));
    if (opened) return opened;
    try {
      return opened = std::make_shared<DeviceContext>(info(device), device);
    } catch (const StatusError& error) {
      throw BackendError("opencl:" + std::to_string(device) + ": " + error.what());
    }
  }
  // Sets the kind and size of the next command for the profiler.
  static void set_span(DeviceContext& device, profiling::Span::Kind kind, std::size_t bytes) {
    device.follow_profiler();
    device.timeline().set_span({.kind = kind, .bytes = bytes});
  }
  static void enqueue_copy(DeviceContext& device, Address destination, Address source,
                           std::size_t bytes);

  const std::vector<DeviceInfo> devices_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<DeviceContext>> opened_;
};

void OpenClBackend::enqueue_copy(DeviceContext& device, Address destination, Address source,
                                 std::size_t bytes) {
  set_span(device, profiling::Span::Kind::Copy, bytes);
  const auto enqueue = [&](cl_mem from, std::size_t from_offset, cl_mem to, std::size_t to_offset) {
    check(clEnqueueCopyBuffer(device.queue(), from, to, from_offset, to_offset, bytes, 0, nullptr,
                              device.timeline().next_event()),
          "clEnqueueCopyBuffer");
  };
  const bool overlaps = destination.base == source.base &&
                        destination.offset < source.offset + bytes &&
                        source.offset < destination.offset + bytes;
  if (!overlaps) {
    enqueue(memory_of(source), source.offset, memory_of(destination), destination.offset);
    return;
  }
  // clEnqueueCopyBuffer rejects overlapping regions, so these are copied through a temporary
  // buffer.
  const BufferHandle between = device.allocate(bytes, "a copy between overlapping regions");
  enqueue(memory_of(source), source.offset, between.get(), 0);
  enqueue(between.get(), 0, memory_of(destination), destination.offset);
}

}  // namespace
}  // namespace volta::opencl

extern "C" VOLTA_BACKEND_API volta::Backend* volta_create_backend(const char* stamp,
                                                                  const char** why) {
  static std::string reason;
  try {
    if (std::strcmp(stamp, volta::kBuildStamp) != 0) {
      reason = std::string("the OpenCL backend was built for Volta ") + volta::kBuildStamp +
               ", not for " + stamp;
    } else {
      auto devices = volta::opencl::find_devices(reason);
      if (!devices.empty()) return new volta::opencl::OpenClBackend(std::move(devices));
    }
  } catch (const std::exception& error) {
    reason = error.what();
  }
  *why = reason.c_str();
  return nullptr;
}
