// The names of Python's that PyTorch's checkpoints may have: dtypes, and what makes tensors.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "volta/dtype.h"

namespace volta::io {

// PyTorch's name of a dtype, with that of its storages, and what it is here.
struct TorchDType {
  std::string_view name, storage;
  std::optional<DType> dtype = std::nullopt;
};
inline constexpr TorchDType kTorchDTypes[] = {
    {"torch.float16", "torch.HalfStorage", DType::f16},
    {"torch.bfloat16", "torch.BFloat16Storage", DType::bf16},
    {"torch.float32", "torch.FloatStorage", DType::f32},
    {"torch.float64", "torch.DoubleStorage", DType::f64},
    {"torch.int32", "torch.IntStorage", DType::i32},
    {"torch.int64", "torch.LongStorage", DType::i64},
    {"torch.uint8", "torch.ByteStorage", DType::u8},
    {"torch.bool", "torch.BoolStorage", DType::boolean},
    {"torch.int8", "torch.CharStorage"},
    {"torch.int16", "torch.ShortStorage"},
    {"torch.uint16", ""},
    {"torch.uint32", ""},
    {"torch.uint64", ""},
    {"torch.complex32", ""},
    {"torch.complex64", "torch.ComplexFloatStorage"},
    {"torch.complex128", "torch.ComplexDoubleStorage"},
    {"torch.float8_e4m3fn", ""},
    {"torch.float8_e4m3fnuz", ""},
    {"torch.float8_e5m2", ""},
    {"torch.float8_e5m2fnuz", ""},
    {"torch.float8_e8m0fnu", ""},
    {"torch.float4_e2m1fn_x2", ""},
    {"torch.qint8", "torch.QInt8Storage"},
    {"torch.quint8", "torch.QUInt8Storage"},
    {"torch.qint32", "torch.QInt32Storage"},
    {"torch.quint4x2", "torch.QUInt4x2Storage"},
    {"torch.quint2x4", "torch.QUInt2x4Storage"},
};

// Storages of bytes, whose tensors say their dtype themselves.
inline constexpr std::string_view kUntyped[] = {"torch.storage.UntypedStorage",
                                                "torch.UntypedStorage"};

inline constexpr std::string_view kOrderedDict = "collections.OrderedDict";
inline constexpr std::string_view kTensor = "torch._utils._rebuild_tensor_v2",
                                  kTensorOfBytes = "torch._utils._rebuild_tensor_v3",
                                  kParameter = "torch._utils._rebuild_parameter",
                                  kParameterWithState =
                                      "torch._utils._rebuild_parameter_with_state",
                                  kFromType = "torch._tensor._rebuild_from_type_v2";
// What else may occur: it holds no tensors, or says nothing of their values.
inline constexpr std::string_view kOthers[] = {"torch.Size",
                                               "torch.device",
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
// Tensors of kinds that Volta has not.
inline constexpr std::pair<std::string_view, std::string_view> kOtherTensors[] = {
    {"torch._utils._rebuild_sparse_tensor", "sparse tensors are not supported: save x.to_dense()"},
    {"torch._utils._rebuild_nested_tensor", "nested tensors are not supported: save their parts"},
    {"torch._utils._rebuild_qtensor", "quantized tensors are not supported: save x.dequantize()"},
    {"torch._utils._rebuild_meta_tensor_no_storage",
     "a tensor of the meta device has no values: load the model's values before it is saved"},
};

inline bool contains_name(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

inline bool is_known_global(std::string_view global) {
  const std::string_view makers[] = {kOrderedDict,        kTensor,  kTensorOfBytes, kParameter,
                                     kParameterWithState, kFromType};
  return contains_name(makers, global) || contains_name(kOthers, global) ||
         contains_name(kUntyped, global) ||
         std::ranges::any_of(kTorchDTypes, [&](const TorchDType& dtype) {
           return dtype.name == global || dtype.storage == global;
         });
}

}  // namespace volta::io
