// The state of one CUDA device: context, streams, staging, kernels, products, and recently written
// scalars. It is made on first use.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/context.h"
#include "backend/cuda/cudnn.h"
#include "backend/cuda/matmul.h"
#include "backend/cuda/modules.h"
#include "backend/cuda/scalars.h"
#include "backend/cuda/small_memory.h"
#include "backend/cuda/staging.h"
#include "backend/cuda/timeline.h"

namespace volta::cuda {

class Device {
 public:
  Device(const Libraries& libraries, int index);

  // All of these throw BackendError once the device is lost.
  CUdeviceptr allocate(std::size_t bytes);  // 0 if there is no more memory
  void release(CUdeviceptr memory);
  void upload(CUdeviceptr destination, const void* source, std::size_t bytes);
  void download(void* destination, CUdeviceptr source, std::size_t bytes);
  void copy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes);
  void synchronize();  // all streams
  // Copies in streams of their own; see Backend.
  void upload_in_copy_stream(CUdeviceptr destination, const void* source, std::size_t bytes);
  void download_in_copy_stream(void* destination, CUdeviceptr source, std::size_t bytes);
  void begin_download(void* destination, CUdeviceptr source, std::size_t bytes);
  bool take_sent(void* destination, CUdeviceptr source, std::size_t bytes);
  // Creates the stream and staging of a compute stream; called before its first work.
  void open_stream(std::size_t number);
  CUstream stream_of(Stream stream) const;
  // Events that nobody uses any more are reused.
  std::unique_ptr<Event> take_event();
  void give_back(std::unique_ptr<Event> event) noexcept;

  const Context& context() const { return context_; }
  SmallMemory<DeviceMemory>& small_memory() { return small_memory_; }
  SmallMemory<PinnedMemory>& small_pinned() { return small_pinned_; }
  Modules& modules() { return modules_; }
  MatmulLibrary& matmuls() { return matmuls_; }
  CudnnLibrary& cudnn() { return cudnn_; }
  // The staging buffers of a compute stream; their copies run in that stream.
  Staging& staging(std::size_t stream_number) {
    return stream_number == 0 ? staging_ : compute_streams_[stream_number]->staging;
  }
  Timeline& timeline() { return timeline_; }
  ScalarTable& scalars() { return scalars_; }  // under submission()
  CUstream capture_stream() const { return capture_stream_.get(); }
  // Held while a run is enqueued, so that runs do not interleave.
  std::mutex& submission() { return submission_; }

 private:
  void forget_scalars(CUdeviceptr address, std::size_t bytes);
  // Enqueues a copy in the stream, and times it if a profiler records.
  template <class Enqueue>
  void timed_copy(CUstream stream, profiling::Span::Kind kind, std::size_t bytes,
                  const Enqueue& enqueue);
  void upload(Staging& staging, Stream stream, CUdeviceptr destination, const void* source,
              std::size_t bytes);
  bool take_readback(void* destination, CUdeviceptr source, std::size_t bytes);

  struct ComputeStream {
    explicit ComputeStream(const Context& context)
        : stream(context), staging(context, stream.get()) {}
    StreamHandle stream;
    Staging staging;
  };

  const Context context_;  // first member: the others use it until their end
  SmallMemory<DeviceMemory> small_memory_{context_};
  SmallMemory<PinnedMemory> small_pinned_{context_};
  StreamHandle capture_stream_;
  StreamHandle upload_stream_, download_stream_, read_stream_;
  Modules modules_;
  MatmulLibrary matmuls_;
  CudnnLibrary cudnn_;
  Staging staging_, upload_staging_, read_staging_;
  std::mutex compute_streams_mutex_;  // held while a compute stream is opened
  // Null for the first stream, whose members are above, and for streams not opened yet.
  std::array<std::unique_ptr<ComputeStream>, kComputeStreams> compute_streams_;
  Timeline timeline_;
  std::mutex submission_;
  ScalarTable scalars_;
  std::mutex events_mutex_;
  std::vector<std::unique_ptr<Event>> spare_events_;
};

// An event in one of the device's streams.
class CudaStreamEvent final : public StreamEvent {
 public:
  // Records the event.
  CudaStreamEvent(std::shared_ptr<Device> device, Stream stream);
  ~CudaStreamEvent() override;
  CudaStreamEvent(const CudaStreamEvent&) = delete;
  CudaStreamEvent& operator=(const CudaStreamEvent&) = delete;

  bool has_passed() const noexcept override;
  void wait() const override;
  void wait_in(Stream stream) const;

 private:
  const std::shared_ptr<Device> device_;
  std::unique_ptr<Event> event_;
};

}  // namespace volta::cuda
