// Training checkpoints of any bytes are loaded or give one of Volta's errors.
#include <cstdint>

#include "fuzz/memory_file.h"
#include "volta/error.h"
#include "volta/io/checkpoint.h"
#include "volta/nn/linear.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile memory(data, size);
  try {
    volta::nn::Linear model(2, 1);
    volta::load_checkpoint(memory.path(), {.model = model, .thread_generator = true});
  } catch (const volta::Error&) {
  }
  return 0;
}
