// Copies between pageable host memory and the device, through pinned blocks. Small uploads fill a
// block one after another; large copies are split into chunks that several threads move between the
// caller's memory and the blocks while earlier chunks are on the bus.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/context.h"

namespace volta::cuda {

class Staging {
 public:
  // Copies run in this stream.
  Staging(const Context& context, CUstream stream) : context_(context), stream_(stream) {}

  // The context must be current. upload returns when `source` has been read, download when
  // `destination` is complete.
  void upload(CUdeviceptr destination, const void* source, std::size_t bytes);
  void download(void* destination, CUdeviceptr source, std::size_t bytes);

 private:
  struct Block {
    explicit Block(const Context& context);
    PinnedMemory memory;
    Event event;  // recorded after the last copy from or to the block
  };
  using Blocks = std::vector<std::unique_ptr<Block>>;

  // Whether the memory is page-locked, so that the device can access it directly.
  bool is_pinned(const void* memory) const;
  void grow(Blocks& blocks, std::size_t count) const;
  void upload_piece(CUdeviceptr destination, const char* source, std::size_t bytes);
  void upload_chunks(CUdeviceptr destination, const char* source, std::size_t bytes,
                     std::size_t worker, std::size_t workers) const;
  void download_chunks(char* destination, CUdeviceptr source, std::size_t bytes, std::size_t worker,
                       std::size_t workers) const;

  const Context& context_;
  const CUstream stream_;
  std::mutex upload_mutex_;
  Blocks upload_blocks_;
  std::size_t current_ = 0;  // the block that small uploads fill
  std::size_t used_ = 0;     // the bytes of it in use
  std::mutex download_mutex_;
  Blocks download_blocks_;
  Event direct_{context_};  // recorded after the last copy from the caller's own memory
};

}  // namespace volta::cuda
