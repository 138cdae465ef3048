// libFuzzer target; corpus/csv has the inputs to begin with.
#include "data_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  volta::fuzz::csv(std::as_bytes(std::span(data, size)));
  return 0;
}
