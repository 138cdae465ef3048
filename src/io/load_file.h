// Loads the tensors of one open safetensors file.
#pragma once

#include "volta/io.h"
#include "volta/safetensors.h"

namespace volta::io {

// Adds the file's tensors to the state dict, and throws IoError if a name is already taken. CPU
// tensors have memory of their own or, with options.mapped, use the file's mapping and keep it
// alive.
void load_file(const SafetensorsFile& file, const LoadOptions& options, StateDict& state);

}  // namespace volta::io
