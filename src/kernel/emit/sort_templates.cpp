// Source of the sort kernels. A tile is sorted in local memory by a bitonic network. Runs are
// merged by rank: an element's place is its own index plus the number of elements in the other run
// that come before it.
#include "kernel/emit/sort_templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace volta::kernel {
namespace {

constexpr std::string_view kCudaNames = R"(#define DEVICE static __device__ __forceinline__
#define LOCAL __shared__
#define GLOBAL
#define BARRIER __syncthreads()
#define BUFFER(type, name) type* __restrict__ name
#define TAKE(type, name)
#define THREAD ((int)threadIdx.x)
#define BLOCK ((i64)blockIdx.x)
#define KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads) name
typedef long long i64;
typedef unsigned long long u64;
)";

constexpr std::string_view kOpenClNames = R"(#define DEVICE static inline
#define LOCAL __local
#define GLOBAL __global
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define BUFFER(type, name) __global char* name##_base, const u64 name##_offset
#define TAKE(type, name) __global type* name = (__global type*)(name##_base + name##_offset)
#define THREAD ((int)get_local_id(0))
#define BLOCK ((i64)get_group_id(0))
#define KERNEL(name, threads) \
  __kernel __attribute__((reqd_work_group_size(threads, 1, 1))) void name
typedef long i64;
typedef ulong u64;
)";

constexpr std::string_view kCommonNames = R"(typedef int i32;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef struct {
  i64 rows, length, count, runs, width, next_width;
} Integers;
DEVICE bool before(KEY key, u32 position, KEY other, u32 other_position) {
  return key < other || (key == other && position < other_position);
}
)";

// Floats: NaN is greatest, the two zeros are equal, otherwise by sign and magnitude.
constexpr std::string_view kFloatKey = R"(DEVICE KEY ordered(BITS bits) {
  const BITS magnitude = (BITS)(bits & (BITS)~SIGN);
  KEY key = (bits & SIGN) != 0 ? (KEY)(BITS)~bits : (KEY)(bits | SIGN);
  if (magnitude == 0) key = (KEY)SIGN;
  if (magnitude > INFINITE) key = ~(KEY)0;
  return DESCENDING ? ~key : key;
}
)";

constexpr std::string_view kIntegerKey = R"(DEVICE KEY ordered(BITS bits) {
  const KEY key = (KEY)(BITS)(bits ^ SIGN);
  return DESCENDING ? ~key : key;
}
)";

constexpr std::string_view kTiles = R"(
KERNEL({name}, {threads})(BUFFER(const BITS, keys), {outputs}, const Integers n) {{
  TAKE(const BITS, keys);
  {takes}
  LOCAL KEY key[{tile}];
  LOCAL u32 position[{tile}];
  const i64 row = BLOCK / n.runs, run = BLOCK - row * n.runs;
  for (int i = THREAD; i < {tile}; i += {threads}) {{
    const i64 at = run * {tile} + i;
    key[i] = at < n.length ? ordered(keys[row * n.length + at]) : ~(KEY)0;
    position[i] = (u32)at;
  }}
  for (int size = 2; size <= {tile}; size <<= 1) {{
    for (int step = size >> 1; step > 0; step >>= 1) {{
      BARRIER;
      for (int i = THREAD; i < {tile} / 2; i += {threads}) {{
        const int a = 2 * i - (i & (step - 1)), b = a + step;
        if (before(key[b], position[b], key[a], position[a]) == ((a & size) == 0)) {{
          const KEY k = key[a];
          const u32 p = position[a];
          key[a] = key[b];
          position[a] = position[b];
          key[b] = k;
          position[b] = p;
        }}
      }}
    }}
  }}
  BARRIER;
  for (int i = THREAD; i < {tile}; i += {threads}) {{
    {put}
  }}
}}
)";

// Among equal elements (only padding past the end can be equal) those of the left run come first.
constexpr std::string_view kMerge = R"(
KERNEL({name}, {threads})(BUFFER(const BITS, keys), BUFFER(const KEY, run_keys),
    BUFFER(const u32, run_positions), {outputs}, const Integers n) {{
  TAKE(const BITS, keys);
  TAKE(const KEY, run_keys);
  TAKE(const u32, run_positions);
  {takes}
  const i64 element = BLOCK * {threads} + THREAD;
  if (element >= n.rows * n.runs * n.width) return;
  const i64 all_runs = element / n.width, i = element - all_runs * n.width;
  const i64 row = all_runs / n.runs, run = all_runs - row * n.runs;
  const KEY key = run_keys[element];
  const u32 position = run_positions[element];
  const bool right = (run & 1) != 0, alone = !right && run + 1 == n.runs;
  const i64 other = (right ? all_runs - 1 : all_runs + 1) * n.width;
  i64 low = 0, high = alone ? 0 : n.width;
  while (low < high) {{
    const i64 middle = (low + high) / 2;
    const KEY k = run_keys[other + middle];
    const u32 p = run_positions[other + middle];
    const bool first = right ? !before(key, position, k, p) : before(k, p, key, position);
    low = first ? middle + 1 : low;
    high = first ? high : middle;
  }}
  {put}
  {fill}
}}
)";

struct Layout {
  std::string_view bits, sign, infinite;  // the storage type, its sign bit, its infinity
};

Layout layout_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {"u32", "0x80000000u", "0x7f800000u"};
    case DType::f64:
      return {"u64", "((u64)1 << 63)", "((u64)0x7ff << 52)"};
    case DType::f16:
      return {"u16", "0x8000u", "0x7c00u"};
    case DType::bf16:
      return {"u16", "0x8000u", "0x7f80u"};
    case DType::i32:
      return {"u32", "0x80000000u", ""};
    case DType::i64:
      return {"u64", "((u64)1 << 63)", ""};
    default:
      return {"u8", "0", ""};
  }
}

std::string definitions(const SortOptions& options, Dialect dialect) {
  const Layout layout = layout_of(options.dtype);
  const bool cuda = dialect == Dialect::Cuda;
  std::string text(cuda ? kCudaNames : kOpenClNames);
  text += fmt::format("#define KEY {}\n#define BITS {}\n#define SIGN {}\n#define DESCENDING {}\n",
                      sort_key_bytes(options.dtype) == 8 ? "u64" : "u32", layout.bits, layout.sign,
                      options.descending ? 1 : 0);
  text += fmt::format("#define INDEX {}\n", options.index_dtype == DType::i32 ? "i32" : "i64");
  if (is_floating(options.dtype)) text += fmt::format("#define INFINITE {}\n", layout.infinite);
  text += kCommonNames;
  text += is_floating(options.dtype) ? kFloatKey : kIntegerKey;
  return text;
}

struct Outputs {
  std::string parameters, takes;
};

Outputs outputs_of(const SortOptions& options) {
  if (!options.last) {
    return {"BUFFER(KEY, out_keys), BUFFER(u32, out_positions)",
            "TAKE(KEY, out_keys);\n  TAKE(u32, out_positions);"};
  }
  Outputs outputs{"BUFFER(INDEX, indices)", "TAKE(INDEX, indices);"};
  if (options.has_values) {
    outputs.parameters += ", BUFFER(BITS, values)";
    outputs.takes += "\n  TAKE(BITS, values);";
  }
  return outputs;
}

// Writes the element (key, position) at index `at` of the row's results.
std::string put_result(const SortOptions& options, std::string_view at, std::string_view position) {
  std::string text = fmt::format("if ({} < n.count) {{\n      ", at);
  text += fmt::format("indices[row * n.count + {}] = (INDEX){};\n", at, position);
  if (options.has_values)
    text += fmt::format("      values[row * n.count + {}] = keys[row * n.length + {}];\n", at,
                        position);
  return text + "    }";
}

}  // namespace

std::size_t sort_key_bytes(DType dtype) { return size_of(dtype) == 8 ? 8 : 4; }

int sort_tile_threads(int tile) { return std::min(kSortThreads, std::max(tile / 2, 32)); }

KernelSource emit_sort_tiles(const SortOptions& options, Dialect dialect) {
  const Outputs outputs = outputs_of(options);
  const std::string put =
      options.last ? put_result(options, "i", "position[i]")
                   : "if (i < n.width) {\n      out_keys[BLOCK * n.width + i] = key[i];\n"
                     "      out_positions[BLOCK * n.width + i] = position[i];\n    }";
  return named_source(
      "sort_tiles",
      definitions(options, dialect) +
          fmt::format(fmt::runtime(kTiles), fmt::arg("name", "KERNEL_NAME"),
                      fmt::arg("threads", sort_tile_threads(options.tile)),
                      fmt::arg("outputs", outputs.parameters), fmt::arg("takes", outputs.takes),
                      fmt::arg("tile", options.tile), fmt::arg("put", put)));
}

KernelSource emit_sort_merge(const SortOptions& options, Dialect dialect) {
  const Outputs outputs = outputs_of(options);
  std::string put, fill;
  if (options.last) {
    put = "const i64 at = i + low;\n  " + put_result(options, "at", "position");
  } else {
    put =
        "const i64 at = i + low;\n"
        "  const i64 out = (row * ((n.runs + 1) / 2) + run / 2) * n.next_width;\n"
        "  if (at < n.next_width) {\n    out_keys[out + at] = key;\n"
        "    out_positions[out + at] = position;\n  }";
    // A run without a neighbour is padded to the next width.
    fill =
        "if (alone && i + n.width < n.next_width) {\n"
        "    out_keys[out + i + n.width] = ~(KEY)0;\n"
        "    out_positions[out + i + n.width] = ~0u;\n  }";
  }
  return named_source(
      "sort_merge",
      definitions(options, dialect) +
          fmt::format(fmt::runtime(kMerge), fmt::arg("name", "KERNEL_NAME"),
                      fmt::arg("threads", kSortThreads), fmt::arg("outputs", outputs.parameters),
                      fmt::arg("takes", outputs.takes), fmt::arg("put", put),
                      fmt::arg("fill", fill)));
}

}  // namespace volta::kernel
