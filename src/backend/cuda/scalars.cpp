// Copies of scalar outputs in host memory.
#include "backend/cuda/scalars.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

namespace volta::cuda {
namespace {

std::uint64_t load(const std::uint64_t* word) {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
}

}  // namespace

ScalarReadback::ScalarReadback(const Context& context, CUfunction function, CUstream stream)
    : context_(context),
      function_(function),
      stream_(stream),
      counter_(context, sizeof(std::uint64_t)),
      entries_(context, 2 * kEntries * sizeof(std::uint64_t)) {
  const Driver& cu = context.driver();
  context.check(cu.cuMemsetD8Async(counter_.address(), 0, sizeof(std::uint64_t), stream),
                "clearing a counter");
  // Launched once outside any capture, since a kernel's first launch may load it.
  enqueue(counter_.address(), sizeof(std::uint64_t), stream);
  issue();
}

void ScalarReadback::enqueue(CUdeviceptr source, std::uint64_t bytes, CUstream stream) const {
  CUdeviceptr counter = counter_.address(), entries = entries_.device();
  int byte_count = static_cast<int>(bytes), entry_count = static_cast<int>(kEntries);
  std::array<void*, 5> parameters{&source, &byte_count, &counter, &entries, &entry_count};
  context_.check(context_.driver().cuLaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, stream,
                                                  parameters.data(), nullptr),
                 "launching the readback of a scalar");
}

const std::uint64_t* ScalarReadback::entry(std::uint64_t sequence) const {
  return static_cast<const std::uint64_t*>(entries_.host()) + 2 * (sequence % kEntries);
}

bool ScalarReadback::wait(std::uint64_t sequence) const {
  constexpr int kSpins = 256;
  const std::uint64_t* number = entry(sequence) + 1;
  while (true) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (load(number) >= sequence) return true;
    }
    const CUresult status = context_.driver().cuStreamQuery(stream_);
    if (status == CUDA_SUCCESS) return load(number) >= sequence;
    if (status != CUDA_ERROR_NOT_READY) context_.check(status, "waiting for a scalar");
    std::this_thread::yield();
  }
}

std::uint64_t ScalarReadback::value(std::uint64_t sequence) const { return load(entry(sequence)); }

void ScalarTable::set_range() {
  low_ = ~CUdeviceptr{0};
  high_ = 0;
  for (const Entry& entry : entries_) {
    low_ = std::min(low_, entry.address);
    high_ = std::max(high_, entry.address + entry.bytes);
  }
}

void ScalarTable::written(CUdeviceptr address, std::uint64_t bytes) {
  if (address >= high_ || address + bytes <= low_) return;
  const auto removed = std::erase_if(entries_, [&](const Entry& entry) {
    return address < entry.address + entry.bytes && entry.address < address + bytes;
  });
  if (removed > 0) set_range();
}

void ScalarTable::produced(CUdeviceptr address, std::uint64_t bytes,
                           std::shared_ptr<ScalarOutput> output, std::uint64_t sequence) {
  written(address, bytes);
  if (entries_.size() == kMaxEntries) entries_.erase(entries_.begin());
  entries_.push_back({address, bytes, {std::move(output), sequence}});
  set_range();
}

std::optional<ScalarTable::Found> ScalarTable::find(CUdeviceptr address,
                                                    std::uint64_t bytes) const {
  for (const Entry& entry : entries_) {
    if (entry.address == address && bytes <= entry.bytes) return entry.found;
  }
  return std::nullopt;
}

}  // namespace volta::cuda
