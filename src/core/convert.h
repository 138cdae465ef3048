// Conversion of elements between dtypes on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "volta/dtype.h"
#include "volta/scalar.h"

namespace volta {

// Converts element by element. Floats are truncated to integers. Memory need not be aligned.
void convert(const void* from, DType from_dtype, void* to, DType to_dtype, std::size_t count);
// Writes a number as an element: `integer` for integer dtypes, otherwise `value`.
void write_element(void* at, DType dtype, double value, std::int64_t integer);
// Returns the number rounded to the floating dtype.
double nearest(double number, DType dtype);

// Returns whether the number, without its fraction, is in the range of the dtype. Floating dtypes
// and bool take any number.
bool fits(Scalar value, DType dtype);
// Throws ArgumentError "<op>: 300 does not fit u8" if the number does not fit.
void require_fits(const char* op, Scalar value, DType dtype);
// Converts like convert(), and throws ArgumentError for a value that does not fit.
void convert_fitting(const char* op, const void* from, DType from_dtype, void* to, DType to_dtype,
                     std::size_t count);
// Throws DTypeError in the name of `op` if `to` cannot represent every value of `from`.
void require_holds(const char* op, DType from, DType to);

}  // namespace volta
