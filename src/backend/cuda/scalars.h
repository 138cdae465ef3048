// Reading a scalar back without waiting for everything behind it. An output of at most 8 bytes that
// was downloaded after a run is mirrored by later captures: a tiny kernel right after its last
// write puts value and sequence number into host memory, and the next download waits for that
// number alone.
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

// Values of one output as its runs wrote them, the latest few.
class Mirror {
 public:
  // The context is current; `function` is mirror_kernel's. Launches are in this stream, or in
  // graphs that are.
  Mirror(const Context& context, CUfunction function, CUstream stream);

  // Enqueues the mirroring of `bytes` at `source`. Counts as issued only once `issued` is called,
  // since a captured mirror is issued by each launch of its graph.
  void enqueue(CUdeviceptr source, std::uint64_t bytes, CUstream stream) const;
  std::uint64_t issue() { return ++issued_; }

  // Waits until mirror number `sequence` has arrived. False when the device finished without it.
  bool wait(std::uint64_t sequence) const;
  std::uint64_t value(std::uint64_t sequence) const;
  // Whether no mirror was issued yet that overwrites number `sequence`.
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
  bool observed = false;  // downloaded after some run
  std::unique_ptr<Mirror> mirror;
};

// Where the device's scalars lie that executables wrote last and nobody overwrote since. Guarded by
// the device's submission lock.
class ScalarTable {
 public:
  struct Found {
    std::shared_ptr<ScalarOutput> output;
    std::uint64_t sequence = 0;  // of the mirrored value; 0: not mirrored
  };

  // Something wrote these bytes: what lay there is forgotten.
  void written(CUdeviceptr address, std::uint64_t bytes);
  // A run wrote a scalar; `sequence` is 0 when it was not mirrored.
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
  CUdeviceptr low_ = 0, high_ = 0;  // all entries lie within
};

}  // namespace volta::cuda
