// PyTorch's checkpoints, as torch.save writes them: a pickle and storages.
#pragma once

#include <memory>
#include <string>

#include "platform/files.h"
#include "volta/export.h"
#include "volta/io.h"

namespace volta::io {

// Adds its tensors to the state dict; throws IoError where it has one of the name. On the CPU they
// lie in memory of their own, or, with options.mapped, in the mapping, and keep it, unless their
// strides are those of a view with gaps.
VOLTA_BACKEND_API void load_torch_file(const std::shared_ptr<const platform::MappedFile>& file,
                                       const std::string& path, const LoadOptions& options,
                                       StateDict& state);

}  // namespace volta::io
