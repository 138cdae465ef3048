// NumPy's files: one array (.npy), or several by name in a zip archive (.npz).
#pragma once

#include <string>

#include "volta/io.h"
#include "volta/tensor.h"

namespace volta {

// An array as numpy.save writes it, of any format version. Fortran order and either byte order are
// read. Elements are of Volta's dtypes, or int8, int16, uint16 (read as i32) or uint32 (as i64);
// others, objects among them, are refused. The file is read at the call; with options.mapped an
// array of the machine's own byte order lies in it, as LoadOptions says. Throws IoError naming the
// file and the problem.
VOLTA_API Tensor load_npy(const std::string& path, LoadOptions options = {});
// Format 1.0, row by row; the old file stays until the new one is complete. NumPy has no bf16:
// DTypeError.
VOLTA_API void save_npy(const Tensor& tensor, const std::string& path);

struct NpzOptions {
  bool compress = false;  // as numpy.savez_compressed
};
// All arrays of an archive, in its order, stored or deflated; each entry's CRC is checked.
VOLTA_API StateDict load_npz(const std::string& path, LoadOptions options = {});
VOLTA_API void save_npz(const StateDict& state, const std::string& path, NpzOptions options = {});

}  // namespace volta
