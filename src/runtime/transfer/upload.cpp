// Uploads many arrays at once. A copy of a few KiB takes as long as one of a MiB, and only large
// copies keep several threads and the bus busy, so arrays that are adjacent in memory are copied
// together.
#include "runtime/transfer/upload.h"

#include <memory>
#include <mutex>

#include "backend/registry.h"
#include "core/profiling.h"
#include "graph/record/apply.h"
#include "graph/record/creation.h"
#include "graph/record/holders.h"
#include "graph/record/node.h"
#include "graph/record/recorder.h"
#include "runtime/transfer/transfers.h"
#include "volta/detail/upload.h"

namespace volta::graph {
namespace {

using detail::HostArray;

// The most bytes that are combined into one copy; larger arrays are copied by themselves.
constexpr std::size_t kTogetherBytes = std::size_t{32} << 20;

std::size_t bytes_of(const HostArray& array) {
  return static_cast<std::size_t>(array.shape.numel()) * size_of(array.dtype);
}

const std::byte* begin_of(const HostArray& array) {
  return static_cast<const std::byte*>(array.data);
}

struct ReleaseBuffer {
  void operator()(Buffer* buffer) const noexcept { release(buffer); }
};
using Scratch = std::unique_ptr<Buffer, ReleaseBuffer>;

}  // namespace

void make_resident(Node& node) {
  if (node.buffer != nullptr || !node.host) return;
  DeviceEntry& entry = *node.entry;
  const std::span<const std::byte> bytes = node.host->bytes;
  Scratch buffer(allocate_buffer(entry, bytes.size()));
  if (!bytes.empty()) {
    const TransferReason reason("placement", node.place, op_info(node.op).name);
    const Transfer counted(Transfer::Direction::ToDevice, entry.device, bytes.size());
    entry.streams.upload(buffer->address, buffer->times, bytes.data(), bytes.size());
  }
  note_holding(buffer.get(), node);
  node.buffer = buffer.release();
}

}  // namespace volta::graph

namespace volta::detail {

using namespace graph;  // NOLINT(google-build-using-namespace): this is its upload

std::vector<Tensor> upload_all(const char* op, std::span<const HostArray> arrays, Device device) {
  DeviceEntry& entry = device_entry(device);
  std::vector<Tensor> tensors;
  std::vector<Buffer*> buffers;  // owned by the tensors
  tensors.reserve(arrays.size());
  buffers.reserve(arrays.size());
  for (const HostArray& array : arrays) {
    require_supported(op, array.dtype, device);
    require_countable(op, array.shape, array.dtype);
    buffers.push_back(allocate_upload(entry, bytes_of(array)));
    tensors.push_back(in_buffer(buffers.back(), array.shape, array.dtype));
  }

  const TransferReason reason(op, {});
  const std::lock_guard guard(entry.lock);
  const auto transfer = [&](Buffer& to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    const profiling::HostSpan span("uploading");
    const Transfer counted(Transfer::Direction::ToDevice, device, bytes);
    entry.streams.upload(to.address, to.times, from, bytes);
  };
  Scratch scratch;
  for (std::size_t first = 0; first < arrays.size();) {
    const std::byte* start = begin_of(arrays[first]);
    std::size_t run = bytes_of(arrays[first]);
    std::size_t end = first + 1;
    while (end < arrays.size() && begin_of(arrays[end]) == start + run &&
           run + bytes_of(arrays[end]) <= kTogetherBytes)
      run += bytes_of(arrays[end++]);
    if (end == first + 1) {
      transfer(*buffers[first], start, run);
    } else {
      if (!scratch) scratch.reset(allocate_buffer(entry, kTogetherBytes));
      transfer(*scratch, start, run);
      Address part = scratch->address;
      for (std::size_t i = first; i < end; ++i) {
        const std::size_t bytes = bytes_of(arrays[i]);
        if (bytes > 0)
          entry.streams.copy(buffers[i]->address, buffers[i]->times, part, scratch->times, bytes);
        part.offset += bytes;
      }
    }
    first = end;
  }
  return tensors;
}

}  // namespace volta::detail
