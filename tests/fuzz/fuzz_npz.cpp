// npz archives and npy files of any bytes.
#include <cstdint>
#include <cstdlib>

#include "fuzz/memory_file.h"
#include "volta/error.h"
#include "volta/io/npy.h"

namespace {

void touch(const volta::Tensor& tensor) {
  const auto bytes = tensor.span<std::byte>();
  unsigned sum = 0;
  for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
  if (bytes.empty() != (tensor.numel() == 0) || sum > 255 * bytes.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile memory(data, size);
  try {
    touch(volta::load_npy(memory.path()));
  } catch (const volta::IoError&) {
  }
  try {
    for (const auto& [name, tensor] : volta::load_npz(memory.path())) touch(tensor);
  } catch (const volta::IoError&) {
  }
  return 0;
}
