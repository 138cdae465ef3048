// PyTorch's checkpoints, and pickles alone, of any bytes.
#include <cstdint>
#include <cstdlib>

#include "fuzz/memory_file.h"
#include "io/torch/pickle.h"
#include "volta/error.h"
#include "volta/io.h"

namespace {

constexpr std::int64_t kMostElements = 1 << 16;  // a view may repeat an element any number of times

void touch(const volta::Tensor& tensor) {
  if (tensor.numel() > kMostElements) return;
  unsigned sum = 0;
  const volta::Tensor rows = tensor.contiguous();
  const auto bytes = rows.span<std::byte>();
  for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
  if (bytes.empty() != (tensor.numel() == 0) || sum > 255 * bytes.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const volta::io::Pickle pickle(std::as_bytes(std::span(data, size)), "fuzz",
                                   [](const std::string&) {});
    (void)pickle.root().items();
  } catch (const volta::IoError&) {
  }
  const MemoryFile memory(data, size);
  try {
    for (const auto& [name, tensor] : volta::load(memory.path())) touch(tensor);
  } catch (const volta::IoError&) {
  }
  return 0;
}
