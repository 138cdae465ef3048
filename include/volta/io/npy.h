// NumPy's files: one array (.npy), or several arrays by name in a zip archive (.npz).
#pragma once

#include <string>

#include "volta/io.h"
#include "volta/tensor.h"

namespace volta {

// Reads an array as numpy.save writes it, of any format version, in C or Fortran order and in
// either byte order. Elements have one of Volta's dtypes, or int8, int16, uint16 (read as i32) or
// uint32 (as i64); others, including objects, are refused. The file is read at the call; with
// options.mapped, an array in the machine's byte order uses the mapped file, see LoadOptions.
// Throws IoError naming the file and the problem.
VOLTA_API Tensor load_npy(const std::string& path, LoadOptions options = {});
// Writes format 1.0 in row-major order. The old file stays until the new one is complete. Throws
// DTypeError for bf16, which NumPy lacks.
VOLTA_API void save_npy(const Tensor& tensor, const std::string& path);

struct NpzOptions {
  bool compress = false;  // compresses, as numpy.savez_compressed does
};
// Reads all arrays of an archive, in its order, stored or deflated, and checks the CRC of each
// entry.
VOLTA_API StateDict load_npz(const std::string& path, LoadOptions options = {});
VOLTA_API void save_npz(const StateDict& state, const std::string& path, NpzOptions options = {});

}  // namespace volta
