// A libFuzzer target for CSV files; corpus/csv has the initial inputs.
#include "data_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  volta::fuzz::csv(std::as_bytes(std::span(data, size)));
  return 0;
}
