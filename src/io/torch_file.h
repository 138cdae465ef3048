// PyTorch's checkpoints, as torch.save writes them: a zip archive of a pickle and of storages.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "platform/files.h"
#include "volta/device.h"
#include "volta/export.h"
#include "volta/io.h"

namespace volta::io {

// Whether these bytes begin as torch.save's do, now or before PyTorch 1.6.
VOLTA_BACKEND_API bool is_torch_file(std::span<const std::byte> file);

// Adds its tensors to the state dict; throws IoError where it has one of the name. On the CPU they
// lie in the mapping, and keep it, unless their strides are those of a view with gaps.
VOLTA_BACKEND_API void load_torch_file(const std::shared_ptr<const platform::MappedFile>& file,
                                       const std::string& path, Device device, StateDict& state);

}  // namespace volta::io
