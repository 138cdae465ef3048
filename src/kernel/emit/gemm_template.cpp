// Source of the product kernels. A block stages tiles of A and B in local memory, step by step
// along k; the next tiles are loaded while it multiplies the current ones. Edges are masked when
// elements are fetched and stored; between these, all tiles are whole. Only fetch_a and fetch_b
// depend on the layout of the operands in memory, and only the last loop on the use of the results.
#include "kernel/emit/gemm_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kernel/emit/emit_printer.h"

namespace volta::kernel {
namespace {

constexpr std::string_view kCudaGemm = R"(
#define LOCAL __shared__
#define ALIGNED __align__(16)
#define LOCAL_BARRIER __syncthreads()
#define BUFFER(type, name) type* __restrict__ name
#define TAKE(type, name)
#define THREAD ((int)threadIdx.x)
#define BLOCK ((int)blockIdx.x)
#define KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads) name
#define LOCAL_POINTER
)";

constexpr std::string_view kOpenClGemm = R"(
#define LOCAL __local
#define ALIGNED __attribute__((aligned(16)))
#define LOCAL_BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define BUFFER(type, name) __global char* restrict name##_base, const u64 name##_offset
#define TAKE(type, name) __global type* name = (__global type*)(name##_base + name##_offset)
#define THREAD ((int)get_local_id(0))
#define BLOCK ((int)get_group_id(0))
#define KERNEL(name, threads) \
  __kernel __attribute__((reqd_work_group_size(threads, 1, 1))) void name
#define LOCAL_POINTER __local
)";

constexpr std::string_view kIntegers = R"(
typedef struct {
  i64 m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c, offset_a, offset_b;
  i64 slice, tiles_m, tiles_n, chunks;
} Integers;
)";

// A thread's share of an operand's tile: fetch_x reads it from memory, put_x stores it in local
// memory as [depth, tile]. `first` is the tile's first row of A or column of B, `end` the end of
// the slice's range of k.
constexpr std::string_view kOperand = R"(
DEVICE void fetch_{x}(PACK_{x}* stage, GLOBAL const STORED* from, const index_t ld,
    const int thread, const index_t first, const index_t extent, const index_t depth,
    const index_t end) {{
#pragma unroll
  for (int i = 0; i < {count}; ++i) {{
    const int e = thread + i * {threads};
    {place}
    PACK_{x} pack = ZERO_{x};
    if (first + at < extent && depth + deep < end)
      pack = *(GLOBAL const PACK_{x}*)(from + ({index}));
    stage[i] = pack;
  }}
}}
DEVICE void put_{x}(LOCAL_POINTER SUM* tile, const PACK_{x}* stage, const int thread) {{
#pragma unroll
  for (int i = 0; i < {count}; ++i) {{
    const int e = thread + i * {threads};
    {place}
    {put}
  }}
}}
)";

// Lanes 2i and 2i + 1 read the same columns, and eight lanes read a whole line of local memory.
constexpr std::string_view kTiles = R"(
KERNEL({name}, {threads})(BUFFER(const STORED, a), BUFFER(const STORED, b), BUFFER(RESULT, c),
    const Integers n) {{
  TAKE(const STORED, a);
  TAKE(const STORED, b);
  TAKE(RESULT, c);
  LOCAL ALIGNED SUM memory[{memory}];
  const int slice = THREAD / {slice_threads}, thread = THREAD % {slice_threads};
  const int lane = thread % 32, warp = thread / 32;
  const int x = warp % {warps_x} * {lanes_x} + lane / 2 % {lanes_x};
  const int y = warp / {warps_x} * {lanes_y} + lane / {lanes_x2} * 2 + lane % 2;

  const int tiles_m = (int)n.tiles_m, tiles_n = (int)n.tiles_n;
  const int product = BLOCK / (tiles_m * tiles_n), block = BLOCK % (tiles_m * tiles_n);
  const int chunk = product / (int)n.batch;
  const i64 matrix = product % (int)n.batch;
  // Eight rows of tiles at a time: blocks that run together share operands in the cache.
  const int band = block / (8 * tiles_n), in_band = block % (8 * tiles_n);
  const int height = tiles_m - 8 * band < 8 ? tiles_m - 8 * band : 8;
  const index_t row = (index_t)(8 * band + in_band % height) * {rows};
  const index_t column = (index_t)(in_band / height) * {columns};
  a += n.offset_a + matrix * n.stride_a;
  b += n.offset_b + matrix * n.stride_b;

  const index_t begin = (index_t)(((i64)chunk * {slices} + slice) * n.slice);
  const index_t end = begin + n.slice < n.k ? (index_t)(begin + n.slice) : (index_t)n.k;
  const int steps = (int)(n.slice / {depth});
  const index_t m = (index_t)n.m, columns = (index_t)n.n;
  const index_t lda = (index_t)n.lda, ldb = (index_t)n.ldb;

  SUM sums[{tile}][{tile}];
#pragma unroll
  for (int i = 0; i < {tile}; ++i) {{
#pragma unroll
    for (int j = 0; j < {tile}; ++j) sums[i][j] = 0;
  }}
  PACK_a stage_a[{count_a}];
  PACK_b stage_b[{count_b}];
  fetch_a(stage_a, a, lda, thread, row, m, begin, end);
  fetch_b(stage_b, b, ldb, thread, column, columns, begin, end);
  for (int step = 0; step < steps; ++step) {{
    LOCAL_POINTER SUM* tile_a = memory + (slice * {buffers} + step % {buffers}) * {tile_memory};
    LOCAL_POINTER SUM* tile_b = tile_a + {depth} * {pitch_a};
    put_a(tile_a, stage_a, thread);
    put_b(tile_b, stage_b, thread);
    LOCAL_BARRIER;
    if (step + 1 < steps) {{
      const index_t next = begin + (index_t)(step + 1) * {depth};
      fetch_a(stage_a, a, lda, thread, row, m, next, end);
      fetch_b(stage_b, b, ldb, thread, column, columns, next, end);
    }}
#pragma unroll {unroll}
    for (int d = 0; d < {depth}; ++d) {{
      SUM left[{tile}], right[{tile}];
#pragma unroll
      for (int i = 0; i < {tile}; i += {width}) {{
        const VECTOR v = *(LOCAL_POINTER const VECTOR*)(tile_a + d * {pitch_a} +
            i * {stride_rows} + y * {width});
        const VECTOR w = *(LOCAL_POINTER const VECTOR*)(tile_b + d * {pitch_b} +
            i * {stride_columns} + x * {width});
        {unpack}
      }}
#pragma unroll
      for (int i = 0; i < {tile}; ++i) {{
#pragma unroll
        for (int j = 0; j < {tile}; ++j) sums[i][j] = fma(left[i], right[j], sums[i][j]);
      }}
    }}
    {after_step}
  }}
{gather}
  if (slice != 0) return;
  c += (i64)product * n.stride_c;
  const index_t ldc = (index_t)n.ldc;
#pragma unroll
  for (int i = 0; i < {tile}; ++i) {{
    const index_t r = row + i / {width} * {width} * {stride_rows} + y * {width} + i % {width};
    if (r >= m) continue;
#pragma unroll
    for (int j = 0; j < {tile}; j += {width}) {{
      const index_t at = column + j * {stride_columns} + x * {width};
      {store}
    }}
  }}
}}
)";

// Slices are added one by one, so that the sum depends on the shape alone.
constexpr std::string_view kGather = R"(
#pragma unroll
  for (int s = 1; s < {slices}; ++s) {{
    LOCAL_BARRIER;
    if (slice == s) {{
#pragma unroll
      for (int i = 0; i < {tile}; ++i) {{
#pragma unroll
        for (int j = 0; j < {tile}; ++j) memory[(i * {tile} + j) * {slice_threads} + thread] = sums[i][j];
      }}
    }}
    LOCAL_BARRIER;
    if (slice == 0) {{
#pragma unroll
      for (int i = 0; i < {tile}; ++i) {{
#pragma unroll
        for (int j = 0; j < {tile}; ++j) sums[i][j] += memory[(i * {tile} + j) * {slice_threads} + thread];
      }}
    }}
  }}
)";

constexpr std::string_view kStrip = R"(
KERNEL({name}, 1)(BUFFER(const STORED, a), BUFFER(const STORED, b), BUFFER(RESULT, c),
    const Integers n) {{
  TAKE(const STORED, a);
  TAKE(const STORED, b);
  TAKE(RESULT, c);
  const int tiles_n = (int)n.tiles_n, tiles = (int)n.tiles_m * tiles_n;
  const i64 matrix = BLOCK / tiles;
  const index_t row = (index_t)(BLOCK % tiles / tiles_n) * {rows};
  const index_t column = (index_t)(BLOCK % tiles % tiles_n) * {columns};
  const int rows = n.m - row < {rows} ? (int)(n.m - row) : {rows};
  const int columns = n.n - column < {columns} ? (int)(n.n - column) : {columns};
  const index_t lda = (index_t)n.lda, ldb = (index_t)n.ldb, ldc = (index_t)n.ldc;
  a += n.offset_a + matrix * n.stride_a;
  b += n.offset_b + matrix * n.stride_b;
  c += matrix * n.stride_c;

  VECTOR sums[{vectors}][{rows}], panel[{vectors}][{depth}];
  SUM left[{depth}][{step}];
  for (int v = 0; v < {vectors}; ++v) {{
    for (int r = 0; r < {rows}; ++r) sums[v][r] = 0;
  }}
  for (index_t depth = 0; depth < (index_t)n.k; depth += {depth}) {{
    const int deep = n.k - depth < {depth} ? (int)(n.k - depth) : {depth};
    for (int v = 0; v * WIDTH < columns; ++v) {{
      const int wide = columns - v * WIDTH < WIDTH ? columns - v * WIDTH : WIDTH;
      SUM* elements = (SUM*)panel[v];
      if (wide < WIDTH) {{
        for (int d = 0; d < deep; ++d) panel[v][d] = 0;
      }}
      {fill_b}
    }}
    for (int r = 0; r < rows; r += {step}) {{
      const int high = rows - r < {step} ? rows - r : {step};
      {fill_a}
      for (int v = 0; v * WIDTH < columns; ++v) {{
        VECTOR s[{step}];
#pragma unroll
        for (int i = 0; i < {step}; ++i) s[i] = 0;
        for (int d = 0; d < deep; ++d) {{
#pragma unroll
          for (int i = 0; i < {step}; ++i) s[i] = fma((VECTOR)(left[d][i]), panel[v][d], s[i]);
        }}
#pragma unroll
        for (int i = 0; i < {step}; ++i) sums[v][r + i] += s[i];
      }}
    }}
  }}
  for (int r = 0; r < rows; ++r) {{
    for (int j = 0; j < columns; ++j) {{
      const SUM* from = (const SUM*)(sums[j / WIDTH] + r);
      c[(row + r) * ldc + column + j] = ROUND(from[j % WIDTH]);
    }}
  }}
}}
)";

// How a strip reads its operands: the inner loop runs along memory.
constexpr std::string_view kLeft = R"(for (int i = 0; i < high; ++i) {
        GLOBAL const STORED* from = a + (row + r + i) * lda + depth;
        for (int d = 0; d < deep; ++d) left[d][i] = VALUE(from[d]);
      })";
constexpr std::string_view kTurnedLeft = R"(for (int d = 0; d < deep; ++d) {
        GLOBAL const STORED* from = a + (depth + d) * lda + row + r;
        for (int i = 0; i < high; ++i) left[d][i] = VALUE(from[i]);
      })";
constexpr std::string_view kRight = R"(for (int d = 0; d < deep; ++d) {
        GLOBAL const STORED* from = b + (depth + d) * ldb + column + v * WIDTH;
        for (int j = 0; j < wide; ++j) elements[d * WIDTH + j] = VALUE(from[j]);
      })";
constexpr std::string_view kTurnedRight = R"(for (int j = 0; j < wide; ++j) {
        GLOBAL const STORED* from = b + (column + v * WIDTH + j) * ldb + depth;
        for (int d = 0; d < deep; ++d) elements[d * WIDTH + j] = VALUE(from[d]);
      })";

constexpr std::string_view kSum = R"(
KERNEL({name}, {threads})(BUFFER(const SUM, partial), BUFFER(RESULT, c), const Integers n) {{
  TAKE(const SUM, partial);
  TAKE(RESULT, c);
  const i64 results = n.batch * n.m * n.n;
  const i64 element = (i64)BLOCK * {threads} + THREAD;
  if (element >= results) return;
  SUM sum = partial[element];
  for (int chunk = 1; chunk < (int)n.chunks; ++chunk) sum += partial[chunk * results + element];
  const i64 row = element / n.n, matrix = row / n.m;
  c[matrix * n.stride_c + (row - matrix * n.m) * n.ldc + element - row * n.n] = ROUND(sum);
}}
)";

constexpr std::string_view kMembers[] = {"x", "y", "z", "w"};
constexpr int kStripStep = 8;     // rows of a strip held in registers at a time
constexpr int kStripDepth = 128;  // rows of a panel of B

const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    default:
      return "f32";
  }
}

bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

// The C type of `width` elements, which has members x, y, z, w in both dialects.
std::string vector_type(DType dtype, int width) {
  if (width == 1) return type_name(dtype);
  const char* base = is_half(dtype) ? "ushort" : dtype == DType::f64 ? "double" : "float";
  return fmt::format("{}{}", base, width);
}

std::string make_vector(const std::string& type, const std::string& elements, Dialect dialect) {
  return dialect == Dialect::Cuda ? fmt::format("make_{}({})", type, elements)
                                  : fmt::format("({})({})", type, elements);
}

std::string definitions(const GemmOptions& options, Dialect dialect) {
  const DType sum = gemm_sum_dtype(options.dtype);
  std::string text = dialect_names(dialect, sum == DType::f64);
  for (const DType half : {DType::f16, DType::bf16}) {
    if (options.dtype == half || options.result_dtype == half)
      text += half_functions(half, dialect);
  }
  text += dialect == Dialect::Cuda ? kCudaGemm : kOpenClGemm;
  text +=
      fmt::format("typedef {} index_t;\ntypedef {} STORED;\ntypedef {} SUM;\ntypedef {} RESULT;\n",
                  options.index64 ? "i64" : "i32", type_name(options.dtype), type_name(sum),
                  type_name(options.result_dtype));
  text += is_half(options.dtype)
              ? fmt::format("#define VALUE(x) f32_from_{}(x)\n", type_name(options.dtype))
              : "#define VALUE(x) (x)\n";
  text += is_half(options.result_dtype)
              ? fmt::format("#define ROUND(x) {}_from_f32(x)\n", type_name(options.result_dtype))
              : "#define ROUND(x) (x)\n";
  return text.append(kIntegers);
}

// An operand as a tile of [depth, extent] in local memory.
struct Operand {
  const char* name = nullptr;
  bool along_depth = false;  // its rows in memory run along k
  int vector = 1;            // elements read at once
  int extent = 0;
  int count = 0;  // vectors read by a thread
  int pitch = 0;  // elements between rows of the tile
};

Operand operand(const char* name, bool along_depth, bool vectors, int extent,
                const GemmOptions& options) {
  Operand o{.name = name, .along_depth = along_depth, .extent = extent};
  o.vector = vectors ? gemm_vector(options.dtype) : 1;
  o.count = extent * options.tile.depth / o.vector / options.tile.slice_threads();
  // An operand that is transposed on its way is written column-wise; the padding spreads these
  // writes over banks.
  o.pitch = along_depth ? extent + gemm_vector(gemm_sum_dtype(options.dtype)) : extent;
  return o;
}

std::string put(const Operand& o, DType sum, Dialect dialect) {
  if (o.vector == 1) return fmt::format("tile[deep * {} + at] = VALUE(stage[i]);", o.pitch);
  std::string text;
  if (o.along_depth) {
    for (int j = 0; j < o.vector; ++j) {
      text += fmt::format("tile[(deep + {}) * {} + at] = VALUE(stage[i].{});\n    ", j, o.pitch,
                          kMembers[j]);
    }
    return text;
  }
  std::string elements;
  for (int j = 0; j < o.vector; ++j)
    elements += fmt::format("{}VALUE(stage[i].{})", j == 0 ? "" : ", ", kMembers[j]);
  const std::string type = vector_type(sum, o.vector);
  return fmt::format("*(LOCAL_POINTER {}*)(tile + deep * {} + at) = {};", type, o.pitch,
                     make_vector(type, elements, dialect));
}

std::string operand_functions(const Operand& o, const GemmOptions& options, Dialect dialect) {
  const std::string type = vector_type(options.dtype, o.vector);
  std::string zeros = "0";
  for (int j = 1; j < o.vector; ++j) zeros += ", 0";
  // Along k, threads read eight elements of a row, then go to the next row: they read whole memory
  // sectors, and their writes go to different banks.
  const int low = 8 / o.vector;
  const std::string place =
      o.along_depth
          ? fmt::format("const int at = e / {0} % {1}, deep = (e / {2} * {0} + e % {0}) * {3};",
                        low, o.extent, low * o.extent, o.vector)
          : fmt::format("const int at = e % {0} * {1}, deep = e / {0};", o.extent / o.vector,
                        o.vector);
  std::string text = fmt::format("typedef {} PACK_{};\n#define ZERO_{} {}\n", type, o.name, o.name,
                                 o.vector == 1 ? "0" : make_vector(type, zeros, dialect));
  return text +
         fmt::format(fmt::runtime(kOperand), fmt::arg("x", o.name), fmt::arg("count", o.count),
                     fmt::arg("threads", options.tile.slice_threads()), fmt::arg("place", place),
                     fmt::arg("index", o.along_depth ? "(first + at) * ld + depth + deep"
                                                     : "(depth + deep) * ld + first + at"),
                     fmt::arg("put", put(o, gemm_sum_dtype(options.dtype), dialect)));
}

std::string store(const GemmOptions& options, int width, Dialect dialect) {
  std::string text;
  if (options.vector_c) {
    std::string elements;
    for (int j = 0; j < width; ++j)
      elements += fmt::format("{}ROUND(sums[i][j + {}])", j == 0 ? "" : ", ", j);
    const std::string type = vector_type(options.result_dtype, width);
    return fmt::format("if (at < columns) *(GLOBAL {}*)(c + (r * ldc + at)) = {};", type,
                       make_vector(type, elements, dialect));
  }
  for (int j = 0; j < width; ++j) {
    text += fmt::format(
        "if (at + {0} < columns) c[r * ldc + at + {0}] = ROUND(sums[i][j + {0}]);\n"
        "      ",
        j);
  }
  return text;
}

std::string unpack(int width) {
  std::string text;
  for (int j = 0; j < width; ++j)
    text += fmt::format("left[i + {0}] = v.{1};\n        right[i + {0}] = w.{1};\n        ", j,
                        kMembers[j]);
  return text;
}

}  // namespace

int gemm_vector(DType dtype) { return dtype == DType::f64 ? 2 : 4; }

DType gemm_sum_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

KernelSource emit_gemm(const GemmOptions& options, Dialect dialect) {
  const GemmTile& t = options.tile;
  const DType sum = gemm_sum_dtype(options.dtype);
  const int width = gemm_vector(sum);
  const Operand a = operand("a", !options.transpose_a, options.vector_a, t.rows, options);
  const Operand b = operand("b", options.transpose_b, options.vector_b, t.columns, options);
  const int threads_x = t.columns / t.thread_tile, lanes_x = std::min(8, threads_x);
  // Two alternating tiles save a barrier; with four slices there is no local memory for them if
  // several blocks are to run at a time.
  const int buffers = t.slices > 2 ? 1 : 2;
  // With 64 results per thread, few registers are left for operands if two blocks are to run at a
  // time.
  const int unroll = t.thread_tile < 8 ? t.depth : t.slices > 2 ? 1 : 2;
  const int tile_memory = t.depth * (a.pitch + b.pitch);
  const int gather_memory = t.slices > 1 ? t.rows * t.columns : 0;
  const std::string gather = t.slices == 1
                                 ? ""
                                 : fmt::format(fmt::runtime(kGather), fmt::arg("slices", t.slices),
                                               fmt::arg("tile", t.thread_tile),
                                               fmt::arg("slice_threads", t.slice_threads()));
  std::string text = definitions(options, dialect);
  text += fmt::format("typedef {} VECTOR;\n", vector_type(sum, width));
  text += operand_functions(a, options, dialect) + operand_functions(b, options, dialect);
  text += fmt::format(
      fmt::runtime(kTiles), fmt::arg("name", "KERNEL_NAME"), fmt::arg("threads", t.threads()),
      fmt::arg("memory", std::max(t.slices * buffers * tile_memory, gather_memory)),
      fmt::arg("slice_threads", t.slice_threads()), fmt::arg("warps_x", threads_x / lanes_x),
      fmt::arg("lanes_x", lanes_x), fmt::arg("lanes_x2", 2 * lanes_x),
      fmt::arg("lanes_y", 32 / lanes_x), fmt::arg("rows", t.rows), fmt::arg("columns", t.columns),
      fmt::arg("slices", t.slices), fmt::arg("depth", t.depth), fmt::arg("tile", t.thread_tile),
      fmt::arg("count_a", a.count), fmt::arg("count_b", b.count), fmt::arg("buffers", buffers),
      fmt::arg("unroll", unroll), fmt::arg("tile_memory", tile_memory),
      fmt::arg("pitch_a", a.pitch), fmt::arg("pitch_b", b.pitch), fmt::arg("width", width),
      fmt::arg("stride_rows", t.rows / t.thread_tile),
      fmt::arg("stride_columns", t.columns / t.thread_tile), fmt::arg("unpack", unpack(width)),
      fmt::arg("after_step", buffers == 1 ? "LOCAL_BARRIER;" : ""), fmt::arg("gather", gather),
      fmt::arg("store", store(options, width, dialect)));
  return named_source("gemm_tiles", std::move(text));
}

KernelSource emit_gemm_strip(const GemmOptions& options) {
  const DType sum = gemm_sum_dtype(options.dtype);
  const int width = sum == DType::f64 ? 8 : 16;
  std::string text = definitions(options, Dialect::OpenCL);
  text += fmt::format("typedef {} VECTOR;\n#define WIDTH {}\n", vector_type(sum, width), width);
  text += fmt::format(fmt::runtime(kStrip), fmt::arg("name", "KERNEL_NAME"),
                      fmt::arg("rows", kGemmStripRows), fmt::arg("columns", kGemmStripColumns),
                      fmt::arg("vectors", kGemmStripColumns / width),
                      fmt::arg("depth", kStripDepth), fmt::arg("step", kStripStep),
                      fmt::arg("fill_a", options.transpose_a ? kTurnedLeft : kLeft),
                      fmt::arg("fill_b", options.transpose_b ? kTurnedRight : kRight));
  return named_source("gemm_strip", std::move(text));
}

KernelSource emit_gemm_sum(const GemmOptions& options, Dialect dialect) {
  return named_source("gemm_sum",
                      definitions(options, dialect) +
                          fmt::format(fmt::runtime(kSum), fmt::arg("name", "KERNEL_NAME"),
                                      fmt::arg("threads", kGemmSumThreads)));
}

}  // namespace volta::kernel
