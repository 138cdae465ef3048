// Copies between pageable host memory and the device, through pinned blocks. Small uploads fill a
// block one after another; large copies are cut into chunks that several threads move between the
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
  // Copies are in the order of the stream's work.
  Staging(const Context& context, CUstream stream) : context_(context), stream_(stream) {}

  // The context is current. upload returns when `source` has been read, download when `destination`
  // is complete.
  void upload(CUdeviceptr destination, const void* source, std::size_t bytes);
  void download(void* destination, CUdeviceptr source, std::size_t bytes);

 private:
  struct Block {
    explicit Block(const Context& context);
    PinnedMemory memory;
    Event event;  // after the last copy from or to the block
  };
  using Blocks = std::vector<std::unique_ptr<Block>>;

  // Page-locked memory is read and written by the device itself.
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
  std::size_t current_ = 0;  // the block being filled by small uploads
  std::size_t used_ = 0;     // bytes of it in use
  std::mutex download_mutex_;
  Blocks download_blocks_;
  Event direct_{context_};  // after the last copy from the caller's own memory
};

}  // namespace volta::cuda
