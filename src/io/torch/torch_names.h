// The Python names that may occur in PyTorch's checkpoints: dtypes, and functions that make
// tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "volta/dtype.h"

namespace volta::io {

// A dtype of PyTorch: its name, the name of its storages, its size, and Volta's dtype for it.
struct TorchDType {
  std::string_view name, storage;
  std::uint64_t size;  // bytes per element; 0 if unknown
  std::optional<DType> dtype = std::nullopt;
  // The stored dtype for widened() if elements are widened.
  std::string_view widened_from = {};
};
inline constexpr TorchDType kTorchDTypes[] = {
    {"torch.float16", "torch.HalfStorage", 2, DType::f16},
    {"torch.bfloat16", "torch.BFloat16Storage", 2, DType::bf16},
    {"torch.float32", "torch.FloatStorage", 4, DType::f32},
    {"torch.float64", "torch.DoubleStorage", 8, DType::f64},
    {"torch.int32", "torch.IntStorage", 4, DType::i32},
    {"torch.int64", "torch.LongStorage", 8, DType::i64},
    {"torch.uint8", "torch.ByteStorage", 1, DType::u8},
    {"torch.bool", "torch.BoolStorage", 1, DType::boolean},
    {"torch.int8", "torch.CharStorage", 1, DType::i32, "I8"},
    {"torch.int16", "torch.ShortStorage", 2, DType::i32, "I16"},
    {"torch.uint16", "", 2, DType::i32, "U16"},
    {"torch.uint32", "", 4, DType::i64, "U32"},
    {"torch.uint64", "", 8, DType::i64, "U64"},
    {"torch.complex32", "", 4},
    {"torch.complex64", "torch.ComplexFloatStorage", 8},
    {"torch.complex128", "torch.ComplexDoubleStorage", 16},
    {"torch.float8_e4m3fn", "", 1, DType::f32, "F8_E4M3"},
    {"torch.float8_e4m3fnuz", "", 1},
    {"torch.float8_e5m2", "", 1, DType::f32, "F8_E5M2"},
    {"torch.float8_e5m2fnuz", "", 1},
    {"torch.float8_e8m0fnu", "", 1},
    {"torch.float4_e2m1fn_x2", "", 1},
    {"torch.qint8", "torch.QInt8Storage", 1},
    {"torch.quint8", "torch.QUInt8Storage", 1},
    {"torch.qint32", "torch.QInt32Storage", 4},
    {"torch.quint4x2", "torch.QUInt4x2Storage", 0},
    {"torch.quint2x4", "torch.QUInt2x4Storage", 0},
};

// Storages of bytes. Their tensors name the dtype themselves.
inline constexpr std::string_view kUntyped[] = {"torch.storage.UntypedStorage",
                                                "torch.UntypedStorage"};

inline constexpr std::string_view kOrderedDict = "collections.OrderedDict";
inline constexpr std::string_view kTensor = "torch._utils._rebuild_tensor_v2",
                                  kOldTensor = "torch._utils._rebuild_tensor",
                                  kTensorOfBytes = "torch._utils._rebuild_tensor_v3",
                                  kParameter = "torch._utils._rebuild_parameter",
                                  kParameterWithState =
                                      "torch._utils._rebuild_parameter_with_state",
                                  kFromType = "torch._tensor._rebuild_from_type_v2";
// Other names that may occur. They hold no tensors, or do not affect values.
inline constexpr std::string_view kOthers[] = {"torch.Size",
                                               "torch.device",
                                               "torch.serialization._get_layout",
                                               "torch.Tensor",
                                               "torch.nn.parameter.Parameter",
                                               "torch.storage.TypedStorage",
                                               "collections.Counter",
                                               "_codecs.encode",
                                               "__builtin__.set",
                                               "__builtin__.frozenset",
                                               "__builtin__.complex",
                                               "__builtin__.bytearray",
                                               "builtins.set",
                                               "builtins.frozenset",
                                               "builtins.complex",
                                               "builtins.bytearray"};
// Kinds of tensors that Volta lacks, with the reason why they are not read.
inline constexpr std::pair<std::string_view, std::string_view> kOtherTensors[] = {
    {"torch._utils._rebuild_sparse_tensor", "sparse tensors are not supported: save x.to_dense()"},
    {"torch._utils._rebuild_nested_tensor", "nested tensors are not supported: save their parts"},
    {"torch._utils._rebuild_qtensor", "quantized tensors are not supported: save x.dequantize()"},
    {"torch._utils._rebuild_meta_tensor_no_storage",
     "a tensor of the meta device has no values: load the model's values before it is saved"},
};

inline constexpr std::string_view kSafetensorsHint =
    "or convert it to safetensors: safetensors.torch.save_file(model.state_dict(), path)";

inline bool contains_name(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

inline bool is_known_global(std::string_view global) {
  const std::string_view makers[] = {kOrderedDict,   kTensor,    kOldTensor,
                                     kTensorOfBytes, kParameter, kParameterWithState,
                                     kFromType};
  const auto is_other = [&](const auto& other) { return other.first == global; };
  return std::ranges::any_of(kOtherTensors, is_other) || contains_name(makers, global) ||
         contains_name(kOthers, global) || contains_name(kUntyped, global) ||
         std::ranges::any_of(kTorchDTypes, [&](const TorchDType& dtype) {
           return dtype.name == global || dtype.storage == global;
         });
}

}  // namespace volta::io
