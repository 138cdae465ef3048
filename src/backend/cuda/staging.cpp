// Staging of uploads and downloads through pinned memory.
#include "backend/cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>

namespace volta::cuda {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{4} << 20;
// Uploads up to kLargeBytes are split more finely, so that copying and transfer overlap even for a
// few MiB.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::size_t kLargeBytes = 2 * kBlockBytes;
// One thread copies at about 10 GB/s. A PCIe 5 link takes five times that, and a batch should be in
// flight before the step that hides it has ended.
constexpr std::size_t kMaxWorkers = 6;
constexpr std::size_t kBlocksPerWorker = 2;
constexpr std::size_t kBlocks = kMaxWorkers * kBlocksPerWorker;

std::size_t worker_count(std::size_t bytes) {
  if (bytes <= kLargeBytes) return 1;
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  return std::min({kMaxWorkers, cores, bytes / kBlockBytes});
}

// Calls body(0) ... body(workers - 1). The first call, and those for which no thread can be
// started, run on this thread. Rethrows the first exception.
template <class Body>
void in_parallel(const Context& context, std::size_t workers, const Body& body) {
  std::vector<std::exception_ptr> failures(workers);
  const auto guarded = [&](std::size_t worker) {
    try {
      const ContextScope scope(context);
      body(worker);
    } catch (...) {
      failures[worker] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    std::size_t started = 1;
    try {
      for (; started < workers; ++started) threads.emplace_back(guarded, started);
    } catch (const std::system_error&) {
    }
    guarded(0);
    for (; started < workers; ++started) guarded(started);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

Staging::Block::Block(const Context& context) : memory(context, kBlockBytes), event(context) {}

void Staging::grow(Blocks& blocks, std::size_t count) const {
  while (blocks.size() < count) blocks.push_back(std::make_unique<Block>(context_));
}

bool Staging::is_pinned(const void* memory) const {
  // For memory that it does not know, this call reports type 0. The query for a single attribute
  // would return an error instead, which tools report.
  unsigned type = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* answer = &type;
  const CUresult status = context_.driver().cuPointerGetAttributes(
      1, &attribute, &answer, reinterpret_cast<CUdeviceptr>(memory));
  return status == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST;
}

void Staging::upload(CUdeviceptr destination, const void* source, std::size_t bytes) {
  const std::lock_guard lock(upload_mutex_);
  if (bytes > kPieceBytes && is_pinned(source)) {
    context_.check(context_.driver().cuMemcpyHtoDAsync(destination, source, bytes, stream_),
                   "copying to the device");
    direct_.record(stream_);
    direct_.wait();
    return;
  }
  const char* from = static_cast<const char*>(source);
  const std::size_t workers = worker_count(bytes);
  if (workers == 1) {
    for (std::size_t done = 0; done < bytes; done += kPieceBytes) {
      upload_piece(destination + done, from + done, std::min(kPieceBytes, bytes - done));
    }
    return;
  }
  grow(upload_blocks_, workers * kBlocksPerWorker);
  // The block that small uploads were filling counts as full from here on.
  upload_blocks_[current_]->event.record(stream_);
  used_ = kBlockBytes;
  in_parallel(context_, workers, [&](std::size_t worker) {
    upload_chunks(destination, from, bytes, worker, workers);
  });
}

void Staging::upload_piece(CUdeviceptr destination, const char* source, std::size_t bytes) {
  grow(upload_blocks_, current_ + 1);
  if (used_ + bytes > kBlockBytes) {
    upload_blocks_[current_]->event.record(stream_);
    current_ = (current_ + 1) % kBlocks;
    grow(upload_blocks_, current_ + 1);
    upload_blocks_[current_]->event.wait();
    used_ = 0;
  }
  char* staged = static_cast<char*>(upload_blocks_[current_]->memory.host()) + used_;
  std::memcpy(staged, source, bytes);
  context_.check(context_.driver().cuMemcpyHtoDAsync(destination, staged, bytes, stream_),
                 "copying to the device");
  used_ += (bytes + 63) / 64 * 64;
}

void Staging::upload_chunks(CUdeviceptr destination, const char* source, std::size_t bytes,
                            std::size_t worker, std::size_t workers) const {
  std::size_t turn = 0;
  for (std::size_t done = worker * kBlockBytes; done < bytes; done += workers * kBlockBytes) {
    const Block& block = *upload_blocks_[worker * kBlocksPerWorker + turn++ % kBlocksPerWorker];
    block.event.wait();
    const std::size_t size = std::min(kBlockBytes, bytes - done);
    std::memcpy(block.memory.host(), source + done, size);
    context_.check(
        context_.driver().cuMemcpyHtoDAsync(destination + done, block.memory.host(), size, stream_),
        "copying to the device");
    block.event.record(stream_);
  }
}

void Staging::download(void* destination, CUdeviceptr source, std::size_t bytes) {
  const std::lock_guard lock(download_mutex_);
  const std::size_t workers = worker_count(bytes);
  grow(download_blocks_, bytes <= kBlockBytes ? 1 : workers * kBlocksPerWorker);
  in_parallel(context_, workers, [&](std::size_t worker) {
    download_chunks(static_cast<char*>(destination), source, bytes, worker, workers);
  });
}

void Staging::download_chunks(char* destination, CUdeviceptr source, std::size_t bytes,
                              std::size_t worker, std::size_t workers) const {
  const std::size_t first = worker * kBlockBytes, step = workers * kBlockBytes;
  const auto block_of = [&](std::size_t done) -> const Block& {
    return *download_blocks_[worker * kBlocksPerWorker + (done - first) / step % kBlocksPerWorker];
  };
  const auto fetch = [&](std::size_t done) {
    if (done >= bytes) return;
    const Block& block = block_of(done);
    context_.check(
        context_.driver().cuMemcpyDtoHAsync(block.memory.host(), source + done,
                                            std::min(kBlockBytes, bytes - done), stream_),
        "copying from the device");
    block.event.record(stream_);
  };
  for (std::size_t ahead = 0; ahead < kBlocksPerWorker; ++ahead) fetch(first + ahead * step);
  for (std::size_t done = first; done < bytes; done += step) {
    const Block& block = block_of(done);
    block.event.wait();
    std::memcpy(destination + done, block.memory.host(), std::min(kBlockBytes, bytes - done));
    fetch(done + kBlocksPerWorker * step);
  }
}

}  // namespace volta::cuda
