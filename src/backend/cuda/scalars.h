// Reads a scalar back without waiting for later work. If an output of at most 8 bytes was
// downloaded after a run, later captures copy it to the host: a tiny kernel right after its last
// write stores value and sequence number in host memory, and the next download waits only for that
// number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/cuda/context.h"
#include "backend/cuda/own_kernels.h"

namespace volta::cuda {

inline constexpr std::uint64_t kMaxScalarBytes = 8;

// The latest few values of one output, copied to host memory as its runs wrote them.
class ScalarReadback {
 public:
  // The context must be current; `function` is readback_kernel's. All launches are in this stream,
  // directly or within graphs.
  ScalarReadback(const Context& context, CUfunction function, CUstream stream);

  // Enqueues the copy of `bytes` at `source` to the host. issue() counts it separately, since each
  // launch of a graph issues a captured copy again.
  void enqueue(CUdeviceptr source, std::uint64_t bytes, CUstream stream) const;
  std::uint64_t issue() { return ++issued_; }

  // Waits until copy number `sequence` has arrived. Returns false if the device finished without
  // it.
  bool wait(std::uint64_t sequence) const;
  std::uint64_t value(std::uint64_t sequence) const;
  // Whether no later copy has been issued that overwrites number `sequence`.
  bool holds(std::uint64_t sequence) const { return issued_ < sequence + kEntries; }

 private:
  static constexpr std::uint64_t kEntries = 8;

  const std::uint64_t* entry(std::uint64_t sequence) const;

  const Context& context_;
  CUfunction function_;
  CUstream stream_;
  DeviceMemory counter_;
  PinnedMemory entries_;  // (value, sequence) pairs, number n at n % kEntries
  std::uint64_t issued_ = 0;
};

// A scalar output of an executable.
struct ScalarOutput {
  bool observed = false;  // it was downloaded after some run
  std::unique_ptr<ScalarReadback> readback;
};

// The scalars in device memory that executables wrote last and nothing has overwritten since.
// Guarded by the device's submission lock.
class ScalarTable {
 public:
  struct Found {
    std::shared_ptr<ScalarOutput> output;
    std::uint64_t sequence = 0;  // number of the host copy; 0 if there is none
  };

  // Forgets the scalars in these bytes, because they were overwritten.
  void written(CUdeviceptr address, std::uint64_t bytes);
  // Notes that a run wrote a scalar; `sequence` is 0 if it was not copied to the host.
  void produced(CUdeviceptr address, std::uint64_t bytes, std::shared_ptr<ScalarOutput> output,
                std::uint64_t sequence);
  std::optional<Found> find(CUdeviceptr address, std::uint64_t bytes) const;

 private:
  static constexpr std::size_t kMaxEntries = 32;

  struct Entry {
    CUdeviceptr address;
    std::uint64_t bytes;
    Found found;
  };
  void set_range();

  std::vector<Entry> entries_;
  CUdeviceptr low_ = 0, high_ = 0;  // bounds of all entries
};

}  // namespace volta::cuda
