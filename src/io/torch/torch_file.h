// PyTorch's checkpoints as torch.save writes them: a pickle and storages.
#pragma once

#include <memory>
#include <string>

#include "platform/files.h"
#include "volta/export.h"
#include "volta/io.h"

namespace volta::io {

// Adds the file's tensors to the state dict, and throws IoError if a name is already taken. CPU
// tensors have memory of their own or, with options.mapped, use the mapping and keep it alive.
// Views with gaps are copied in any case.
VOLTA_BACKEND_API void load_torch_file(const std::shared_ptr<const platform::MappedFile>& file,
                                       const std::string& path, const LoadOptions& options,
                                       StateDict& state);

}  // namespace volta::io
