// A libFuzzer target for IDX files; corpus/idx has the initial inputs.
#include "data_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  volta::fuzz::idx(std::as_bytes(std::span(data, size)));
  return 0;
}
