// The tensors of one open safetensors file.
#pragma once

#include "volta/io.h"
#include "volta/safetensors.h"

namespace volta::io {

// Adds them to the state dict; throws IoError where it has one of the name. On the CPU they lie in
// memory of their own, or, with options.mapped, in the file's mapping, and keep it.
void load_file(const SafetensorsFile& file, const LoadOptions& options, StateDict& state);

}  // namespace volta::io
