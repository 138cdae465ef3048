// Everything of one CUDA device: context, streams, staging, kernels, products, and the scalars
// written lately. Made on first use.
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
#include "backend/cuda/staging.h"
#include "backend/cuda/timeline.h"

namespace volta::cuda {

class Device {
 public:
  Device(const Libraries& libraries, int index);

  // These throw BackendError once the device is lost.
  CUdeviceptr allocate(std::size_t bytes);  // 0 when there is no more
  void release(CUdeviceptr memory);
  void upload(CUdeviceptr destination, const void* source, std::size_t bytes);
  void download(void* destination, CUdeviceptr source, std::size_t bytes);
  void copy(CUdeviceptr destination, CUdeviceptr source, std::size_t bytes);
  void synchronize();  // all streams
  // In streams of their own; see Backend.
  void upload_aside(CUdeviceptr destination, const void* source, std::size_t bytes);
  void download_aside(void* destination, CUdeviceptr source, std::size_t bytes);
  void begin_download(void* destination, CUdeviceptr source, std::size_t bytes);
  bool take_sent(void* destination, CUdeviceptr source, std::size_t bytes);
  // Makes what the lane needs that computes, once before its first work.
  void open_lane(std::size_t number);
  CUstream stream_of(Lane lane) const;
  // Events of points that nobody asks any more are used again.
  std::unique_ptr<Event> take_event();
  void give_back(std::unique_ptr<Event> event) noexcept;

  const Context& context() const { return context_; }
  Modules& modules() { return modules_; }
  MatmulLibrary& matmuls() { return matmuls_; }
  CudnnLibrary& cudnn() { return cudnn_; }
  // In the order of a lane's work.
  Staging& staging(std::size_t lane) { return lane == 0 ? staging_ : lanes_[lane]->staging; }
  Timeline& timeline() { return timeline_; }
  ScalarTable& scalars() { return scalars_; }  // under submission()
  CUstream capture_stream() const { return capture_stream_.get(); }
  // Held while a run is enqueued, so that runs follow each other whole.
  std::mutex& submission() { return submission_; }

 private:
  void forget_scalars(CUdeviceptr address, std::size_t bytes);
  // Enqueues a copy in the stream, timed where a profiler records.
  template <class Enqueue>
  void timed_copy(CUstream stream, profiling::Span::Kind kind, std::size_t bytes,
                  const Enqueue& enqueue);
  void upload(Staging& staging, Lane lane, CUdeviceptr destination, const void* source,
              std::size_t bytes);
  bool read_mirror(void* destination, CUdeviceptr source, std::size_t bytes);

  struct ComputeLane {
    explicit ComputeLane(const Context& context)
        : stream(context), staging(context, stream.get()) {}
    Stream stream;
    Staging staging;
  };

  const Context context_;  // first: the others use it to their end
  Stream capture_stream_;
  Stream upload_stream_, download_stream_, read_stream_;
  Modules modules_;
  MatmulLibrary matmuls_;
  CudnnLibrary cudnn_;
  Staging staging_, upload_staging_, read_staging_;
  std::mutex lanes_mutex_;                                         // while one is opened
  std::array<std::unique_ptr<ComputeLane>, kComputeLanes> lanes_;  // of all but the first, if open
  Timeline timeline_;
  std::mutex submission_;
  ScalarTable scalars_;
  std::mutex events_mutex_;
  std::vector<std::unique_ptr<Event>> spare_events_;
};

// A point in the work of one of the device's streams.
class StreamPoint final : public Point {
 public:
  // Marks it.
  StreamPoint(std::shared_ptr<Device> device, Lane lane);
  ~StreamPoint() override;
  StreamPoint(const StreamPoint&) = delete;
  StreamPoint& operator=(const StreamPoint&) = delete;

  bool has_passed() const noexcept override;
  void wait() const override;
  void hold(Lane lane) const;

 private:
  const std::shared_ptr<Device> device_;
  std::unique_ptr<Event> event_;
};

}  // namespace volta::cuda
