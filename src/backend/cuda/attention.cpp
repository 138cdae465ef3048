// The variants of the attention kernels, and their arguments.
#include "backend/cuda/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <limits>
#include <string>

#include "backend/cuda/attention_text.h"

namespace volta::cuda {
namespace {

using plan::AttentionStep;
using Kernel = AttentionVariant::Kernel;

constexpr int kOldest = 80;  // the first devices with these tensor core instructions for bf16
constexpr std::int64_t kMostSize = 256;
constexpr std::int64_t kMostRows = std::int64_t{1} << 30;

// Whether a multiprocessor lets a block have 160 KiB of shared memory. On others it is 99 KiB.
bool has_much_shared_memory(int compute_capability) {
  return compute_capability == 80 || compute_capability == 87 ||
         (compute_capability >= 90 && compute_capability < 120);
}

int class_of(std::int64_t size) {
  for (const int most : {32, 64, 96, 128, 192}) {
    if (size <= most) return most;
  }
  return static_cast<int>(kMostSize);
}

// The tiles leave registers unspilled and let two blocks share a multiprocessor where they can.
AttentionTile tile_of(Kernel kernel, int size, bool much) {
  switch (kernel) {
    case Kernel::Forward:
      if (size <= 96) return {.warps = 4, .tiles = 2, .block = 64, .step = 64};
      if (size == 128) {
        return much ? AttentionTile{.warps = 4, .tiles = 2, .block = 64, .step = 64}
                    : AttentionTile{.warps = 4, .tiles = 2, .block = 32, .step = 32};
      }
      return {.warps = 4, .tiles = 1, .block = 32, .step = 32};
    case Kernel::QueriesGradient:
      if (size <= 64) return {.warps = 4, .tiles = 1, .block = 64, .step = 32};
      if (size <= 128 && much) return {.warps = 4, .tiles = 2, .block = 32, .step = 32};
      if (size <= 128) return {.warps = 4, .tiles = 1, .block = 32, .step = 32};
      if (much) return {.warps = 4, .tiles = 1, .block = 32, .step = 32};
      return {.warps = 2, .tiles = 1, .block = 16, .step = 16};
    case Kernel::KeysGradient:
      if (size <= 64) return {.warps = 4, .tiles = 2, .block = 64, .step = 32};
      if (size <= 128 && much) return {.warps = 4, .tiles = 1, .block = 64, .step = 64};
      if (size <= 128) return {.warps = 4, .tiles = 1, .block = 32, .step = 32};
      if (much) return {.warps = 4, .tiles = 1, .block = 32, .step = 32, .parts = 2};
      return {.warps = 2, .tiles = 1, .block = 16, .step = 16, .parts = 2};
  }
  return {};
}

const char* name_of(Kernel kernel) {
  switch (kernel) {
    case Kernel::Forward:
      return "forward";
    case Kernel::QueriesGradient:
      return "queries_gradient";
    case Kernel::KeysGradient:
      return "keys_gradient";
  }
  return "";
}

const char* mask_name(const AttentionVariant& variant) {
  if (!variant.masked) return "None";
  switch (variant.mask) {
    case DType::boolean:
      return "Boolean";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "Bf16";
    case DType::f64:
      return "F64";
    default:
      return "F32";
  }
}

// The parameters of a kernel, and what it gives to its body.
struct Parameters {
  const char *declared, *passed;
};
Parameters parameters_of(Kernel kernel) {
  switch (kernel) {
    case Kernel::Forward:
      return {"const u16* q, const u16* k, const u16* v, u16* output, float* logs",
              "q, k, v, mask, output, logs"};
    case Kernel::QueriesGradient:
      return {
          "const u16* q, const u16* k, const u16* v, const u16* output, const u16* gain, "
          "const float* logs, u16* result, float* sums",
          "q, k, v, output, gain, logs, mask, result, sums"};
    case Kernel::KeysGradient:
      return {
          "const u16* q, const u16* k, const u16* v, const u16* gain, const float* logs, "
          "const float* sums, u16* keys_result, u16* values_result",
          "q, k, v, gain, logs, sums, mask, keys_result, values_result"};
  }
  return {};
}

std::int64_t blocks_of(std::int64_t rows, const AttentionTile& tile) {
  return (rows + tile.rows() - 1) / tile.rows() * tile.parts;
}

void append(std::vector<std::int64_t>& ints, const AttentionStep::Operand& operand,
            std::size_t axes) {
  ints.push_back(operand.offset);
  ints.insert(ints.end(), operand.strides.begin(),
              operand.strides.begin() + static_cast<std::ptrdiff_t>(axes));
}

// The struct Numbers in attention_kernel.cuh.
std::vector<std::int64_t> numbers_of(const AttentionStep& step) {
  std::vector<std::int64_t> ints{step.batch,
                                 step.heads,
                                 step.kv_heads,
                                 step.queries,
                                 step.keys,
                                 step.size,
                                 std::bit_cast<std::int64_t>(step.scale)};
  constexpr std::size_t kOperands = 6;  // q, k, v, output, its gradient, logarithms
  for (std::size_t i = 0; i < kOperands; ++i) {
    const bool has = i < 3 || step.gradient;
    append(ints, has ? step.reads[i] : AttentionStep::Operand{}, 3);
  }
  append(ints, step.masked ? step.reads.back() : AttentionStep::Operand{}, 4);
  for (std::size_t result = 0; result < 3; ++result) {
    const std::int64_t length = result == 0 ? step.queries : step.keys,
                       heads = result == 0 ? step.heads : step.kv_heads;
    const bool heads_first = (step.heads_first >> result & 1) != 0;
    ints.push_back(heads * length * step.size);
    ints.push_back(heads_first ? length * step.size : step.size);
    ints.push_back(heads_first ? step.size : heads * step.size);
  }
  return ints;
}

}  // namespace

unsigned AttentionVariant::shared_bytes() const {
  const int pitch = 2 * size + 16, rows = tile.rows();
  switch (kernel) {
    case Kernel::Forward:
      return static_cast<unsigned>(pitch * (rows + 4 * tile.block));
    case Kernel::QueriesGradient:
      return static_cast<unsigned>(pitch * (2 * rows + 4 * tile.block) + 4 * rows);
    case Kernel::KeysGradient:
      return static_cast<unsigned>(pitch * (2 * rows + 4 * tile.block) + 16 * tile.block);
  }
  return 0;
}

kernel::KernelSource AttentionVariant::source() const {
  const bool bf16 = dtype == DType::bf16;
  std::string name =
      fmt::format("volta_attention_{}_{}_{}{}{}{}", name_of(kernel), bf16 ? "bf16" : "f16", size,
                  causal ? "_causal" : "", masked ? "_mask_" : "", masked ? mask_name(*this) : "");
  const Parameters parameters = parameters_of(kernel);
  std::string text = fmt::format(
      R"({text}
struct Variant {{
  static constexpr int kSize = {size}, kWarps = {warps}, kTiles = {tiles}, kBlock = {block},
                       kStep = {step}, kParts = {parts};
  __device__ static constexpr bool causal() {{ return {causal}; }}
  __device__ static constexpr bool bf16() {{ return {bf16}; }}
  __device__ static constexpr volta_attention::Mask mask() {{ return volta_attention::Mask::{mask}; }}
}};
using volta_attention::u16;

extern "C" __global__ void __launch_bounds__({threads})
{name}({declared}{mask_parameter}, const volta_attention::Numbers numbers) {{
  {no_mask}volta_attention::{body}<Variant>({passed}, numbers);
}}
)",
      fmt::arg("text", kAttentionText), fmt::arg("size", size), fmt::arg("warps", tile.warps),
      fmt::arg("tiles", tile.tiles), fmt::arg("block", tile.block), fmt::arg("step", tile.step),
      fmt::arg("parts", tile.parts), fmt::arg("causal", causal), fmt::arg("bf16", bf16),
      fmt::arg("mask", mask_name(*this)), fmt::arg("threads", tile.warps * 32),
      fmt::arg("name", name), fmt::arg("declared", parameters.declared),
      fmt::arg("mask_parameter", masked ? ", const void* mask" : ""),
      fmt::arg("no_mask", masked ? "" : "const void* const mask = nullptr;\n  "),
      fmt::arg("body", name_of(kernel)), fmt::arg("passed", parameters.passed));
  return {std::move(name), std::move(text)};
}

CallSupport attention_support(const AttentionStep& step, int compute_capability) {
  const bool has_mask_dtype = !step.masked || step.mask == DType::boolean || is_floating(step.mask);
  if (compute_capability < kOldest || size_of(step.dtype) != 2 || !is_floating(step.dtype) ||
      !has_mask_dtype || step.size > kMostSize || std::max(step.queries, step.keys) > kMostRows) {
    return {};
  }
  const std::int64_t blocks =
      step.batch * step.heads * (std::max(step.queries, step.keys) / 16 + 1) * 2;
  if (blocks > std::numeric_limits<std::int32_t>::max()) return {};
  const auto rows = static_cast<std::uint64_t>(step.batch * step.heads * step.queries);
  return {.taken = true, .workspace_bytes = step.gradient ? rows * sizeof(float) : 0};
}

std::vector<AttentionLaunch> attention_launches(const AttentionStep& step, int compute_capability) {
  std::vector<AttentionLaunch> launches;
  const std::vector<std::int64_t> ints = numbers_of(step);
  const auto add = [&](Kernel kernel, std::int64_t heads, std::int64_t rows,
                       std::vector<plan::BufferRef> buffers) {
    const int size = class_of(step.size);
    AttentionLaunch launch{
        {.kernel = kernel,
         .dtype = step.dtype,
         .size = size,
         .causal = step.causal,
         .masked = step.masked,
         .mask = step.mask,
         .tile = tile_of(kernel, size, has_much_shared_memory(compute_capability))},
        0,
        std::move(buffers),
        ints};
    launch.blocks = step.batch * heads * blocks_of(rows, launch.variant.tile);
    if (step.masked) launch.buffers.push_back(step.reads.back().buffer);
    if (launch.blocks > 0) launches.push_back(std::move(launch));
  };
  const auto read = [&](std::size_t i) { return step.reads[i].buffer; };
  if (!step.gradient) {
    add(Kernel::Forward, step.heads, step.queries,
        {read(0), read(1), read(2), step.writes[0], step.writes[1]});
    return launches;
  }
  // The first kernel leaves the sums of output times gradient to the second one.
  add(Kernel::QueriesGradient, step.heads, step.queries,
      {read(0), read(1), read(2), read(3), read(4), read(5), step.writes[0], step.scratch});
  add(Kernel::KeysGradient, step.kv_heads, step.keys,
      {read(0), read(1), read(2), read(4), read(5), step.scratch, step.writes[1], step.writes[2]});
  return launches;
}

}  // namespace volta::cuda
