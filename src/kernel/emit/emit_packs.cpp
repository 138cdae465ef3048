// Device functions that move several neighbouring elements at once, in accesses of up to 16 bytes.
// Addresses are aligned to the size of one access.
#include <algorithm>

#include "kernel/emit/emit_printer.h"

namespace volta::kernel {
namespace {

// The OpenCL vector type for `count` elements of a dtype.
std::string opencl_vector(DType dtype, int count) {
  const char* element = "float";
  switch (dtype) {
    case DType::f64:
      element = "double";
      break;
    case DType::f16:
    case DType::bf16:
      element = "ushort";
      break;
    case DType::i32:
      element = "int";
      break;
    case DType::i64:
      element = "long";
      break;
    case DType::u8:
    case DType::boolean:
      element = "uchar";
      break;
    default:
      break;
  }
  return fmt::format("{}{}", element, count);
}

const char* cuda_word(int bytes) {
  switch (bytes) {
    case 16:
      return "uint4";
    case 8:
      return "uint2";
    case 4:
      return "unsigned int";
    default:
      return "unsigned short";
  }
}

struct Pack {
  std::string type;
  int count;  // the number of elements
  int per_access;
  int bytes;  // the size of one access
};

// Memory that the kernel does not write is read through the read-only cache.
std::string cuda_functions(const Pack& pack) {
  const std::string word = cuda_word(pack.bytes);
  std::string fetch, load, store;
  for (int at = 0; at < pack.count; at += pack.per_access) {
    const int access = at / pack.per_access;
    fetch += fmt::format("  pack.w[{0}] = __ldg((const {1}*)from + {0});\n", access, word);
    load += fmt::format("  pack.w[{0}] = ((const {1}*)from)[{0}];\n", access, word);
    store += fmt::format("  (({1}*)to)[{0}] = pack.w[{0}];\n", access, word);
  }
  std::string unpack, fill;
  for (int k = 0; k < pack.count; ++k) {
    unpack += fmt::format("  to[{0}] = pack.v[{0}];\n", k);
    fill += fmt::format("  pack.v[{0}] = from[{0}];\n", k);
  }
  const std::string pack_type = fmt::format("Pack_{}x{}", pack.type, pack.count);
  return fmt::format(
      "union {0} {{\n  {1} w[{2}];\n  {3} v[{4}];\n}};\n"
      "DEVICE void fetch_{3}x{4}({3}* to, const {3}* from) {{\n  {0} pack;\n{5}{6}}}\n"
      "DEVICE void load_{3}x{4}({3}* to, const {3}* from) {{\n  {0} pack;\n{7}{6}}}\n"
      "DEVICE void store_{3}x{4}({3}* to, const {3}* from) {{\n  {0} pack;\n{8}{9}}}\n",
      pack_type, word, pack.count / pack.per_access, pack.type, pack.count, fetch, unpack, load,
      fill, store);
}

std::string opencl_functions(const Pack& pack, DType dtype) {
  const std::string vector = opencl_vector(dtype, pack.per_access);
  std::string load, store;
  for (int at = 0; at < pack.count; at += pack.per_access) {
    const int access = at / pack.per_access;
    load += fmt::format("  const {1} w{0} = ((__global const {1}*)from)[{0}];\n", access, vector);
    std::string elements;
    for (int k = 0; k < pack.per_access; ++k) {
      load += fmt::format("  to[{}] = w{}.s{:x};\n", at + k, access, k);
      elements += fmt::format("{}from[{}]", k == 0 ? "" : ", ", at + k);
    }
    store += fmt::format("  ((__global {1}*)to)[{0}] = ({1})({2});\n", access, vector, elements);
  }
  return fmt::format(
      "DEVICE void load_{0}x{1}({0}* to, __global const {0}* from) {{\n{2}}}\n"
      "#define fetch_{0}x{1} load_{0}x{1}\n"
      "DEVICE void store_{0}x{1}(__global {0}* to, const {0}* from) {{\n{3}}}\n",
      pack.type, pack.count, load, store);
}

}  // namespace

std::string pack_functions(DType dtype, int count, Dialect dialect) {
  const int size = static_cast<int>(size_of(dtype)), bytes = std::min(16, count * size);
  const Pack pack{Printer::type(dtype), count, bytes / size, bytes};
  std::string fill;
  for (int k = 0; k < count; ++k) fill += fmt::format("  to[{}] = value;\n", k);
  return (dialect == Dialect::Cuda ? cuda_functions(pack) : opencl_functions(pack, dtype)) +
         fmt::format("DEVICE void fill_{0}x{1}({0}* to, {0} value) {{\n{2}}}\n", pack.type, count,
                     fill);
}

}  // namespace volta::kernel
