// safetensors files of any bytes give an IoError, or tensors whose bytes can all be read and that
// make a file with the same content.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "fuzz/memory_file.h"
#include "volta/error.h"
#include "volta/io.h"
#include "volta/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile memory(data, size);
  try {
    const volta::SafetensorsFile file(memory.path());
    unsigned sum = 0;
    std::uint64_t covered = 0;
    for (const volta::TensorEntry& entry : file.tensors()) {
      for (const std::byte byte : file.data(entry)) sum += std::to_integer<unsigned>(byte);
      covered += entry.bytes;
      if (file.find(entry.name) != &entry) std::abort();
    }
    if (covered > size || sum > 255 * covered) std::abort();
    const volta::StateDict state = volta::load(memory.path());
    if (state.size() + state.unreadable().size() != file.tensors().size()) std::abort();
    for (const auto& [name, tensor] : state) {
      const volta::TensorEntry& entry = *file.find(name);
      const auto bytes = tensor.span<std::byte>();
      if (tensor.dtype() != entry.dtype || tensor.shape() != entry.shape) std::abort();
      if (entry.content != volta::TensorContent::same) continue;
      const auto expected = file.data(entry);
      if (!std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end())) std::abort();
    }
  } catch (const volta::IoError&) {
  }
  return 0;
}
