// PyTorch's checkpoints: finds the tensors among the objects of the pickle and their data in the
// storages. Everything in the file is checked here, and allocations are bounded by the size of the
// file.
#include "io/torch/torch_file.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "encoding/json.h"
#include "io/common/owned_bytes.h"
#include "io/common/widen.h"
#include "io/torch/pickle.h"
#include "io/torch/torch_archive.h"
#include "io/torch/torch_names.h"
#include "volta/creation.h"
#include "volta/detail/upload.h"
#include "volta/error.h"

namespace volta::io {
namespace {

constexpr std::string_view kBareName = "tensor";  // name for a file that is a single tensor

constexpr std::size_t kMaxDepth = 64;  // nesting of dicts and lists
// Copies and names may take kMaxGrowth times the file plus kFreeBytes. The limit matters because a
// view can repeat a few elements many times.
constexpr std::uint64_t kMaxGrowth = 8, kFreeBytes = 16 << 20;

struct FoundTensor {
  std::string name;
  std::string problem;  // why the tensor is not read; the other fields are then unset
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::int64_t> strides;
  bool contiguous = true;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner;
};

class TorchFile {
 public:
  TorchFile(const std::shared_ptr<const platform::MappedFile>& file, const std::string& path,
            const LoadOptions& options)
      : path_(path),
        left_(kMaxGrowth * file->bytes().size() + kFreeBytes),
        to_device_(!options.device.is_cpu()),
        check_global_([this](const std::string& global) { check(global); }),
        archive_(file, path, check_global_,
                 {.mapped = options.mapped || to_device_,
                  .max_unpacked_bytes = options.max_unpacked_bytes}),
        visits_left_(kMaxGrowth * archive_.pickle_bytes() + kMaxDepth) {}

  std::vector<FoundTensor> tensors() {
    find(archive_.pickle().root());
    return std::move(found_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw IoError(path_ + ": " + problem);
  }
  [[noreturn]] void fail_in(const std::string& name, const std::string& problem) const {
    fail(fmt::format("tensor {}: {}", quoted(name), problem));
  }

  static std::string quoted(std::string_view text) { return json_excerpt(text); }

  void check(const std::string& global) const {
    if (is_known_global(global)) return;
    fail(fmt::format(
        "it has an object of Python's {}, and no code is run to read it: save the tensors alone, "
        "torch.save(model.state_dict(), path), {}",
        quoted(global), kSafetensorsHint));
  }

  // Called before memory is allocated for `what`.
  void spend(std::uint64_t bytes, const char* what) {
    if (bytes > left_)
      fail(
          fmt::format("{} would take more than {} times the file; save {{k: "
                      "v.contiguous().clone() for k, v in state_dict.items()}}",
                      what, kMaxGrowth));
    left_ -= bytes;
  }

  // ---- Objects.
  // A step on the path to an object: a key of a dict, or an index of a list.
  struct Part {
    const PickleValue* key;  // null in a list
    std::size_t index;
  };

  void find(const PickleValue& value) {
    if (way_.size() > kMaxDepth)
      fail(fmt::format("objects lie within each other more than {} deep, or within themselves",
                       kMaxDepth));
    if (visits_left_-- == 0) fail("objects occur in too many places");
    if (const auto* dict = value.as<PickleValue::Dict>()) return find_in_dict(dict->items);
    if (const PickleValues* items = value.items()) {
      for (std::size_t i = 0; i < items->size(); ++i) {
        way_.push_back({nullptr, i});
        find(*(*items)[i]);
        way_.pop_back();
      }
      return;
    }
    const auto* call = value.as<PickleValue::Call>();
    if (call == nullptr) return;
    const std::string_view function = call->function->global();
    const PickleValues& arguments = call->arguments->as<PickleValue::Tuple>()->items;
    if (function == kOrderedDict) {
      if (!arguments.empty())
        fail("an OrderedDict is made of other objects; save it with Python 3");
      return find_in_dict(call->items);
    }
    add_tensor(function, arguments);
  }

  void find_in_dict(const PickleValues& items) {
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      way_.push_back({items[i], 0});
      find(*items[i + 1]);
      way_.pop_back();
    }
  }

  std::string name_here() {
    if (way_.empty()) return std::string(kBareName);
    std::string name;
    for (const Part& part : way_) {
      std::string number;
      std::string_view text;
      if (part.key == nullptr) {
        number = std::to_string(part.index);
      } else if (const auto* integer = part.key->as<std::int64_t>()) {
        number = std::to_string(*integer);
      } else if (const auto* key = part.key->as<std::string_view>()) {
        text = *key;
      } else {
        fail(fmt::format("a tensor after {} has a key that is neither a text nor an integer",
                         quoted(name)));
      }
      if (text.data() == nullptr) text = number;
      spend(text.size() + 1, "the names of its tensors");
      if (&part != way_.data()) name += '.';
      name += text;
    }
    if (valid_utf8_prefix(name) != name.size()) fail("the name of a tensor is not valid UTF-8");
    return name;
  }

  // Adds the tensor that the function would make of the arguments, if it makes one.
  void add_tensor(std::string_view function, std::span<const PickleValue* const> arguments) {
    // Wrappers of a tensor are unwrapped; its class and attributes are dropped.
    if (function == kParameter || function == kParameterWithState) {
      if (arguments.empty()) fail("a parameter has no tensor");
      const auto* inner = arguments[0]->as<PickleValue::Call>();
      if (inner == nullptr) fail("a parameter has no tensor");
      const std::string_view made_by = inner->function->global();
      if (!is_maker(made_by))
        fail(fmt::format("parameter {}: it is made by {}", quoted(name_here()), quoted(made_by)));
      return add_tensor(made_by, inner->arguments->as<PickleValue::Tuple>()->items);
    }
    if (function == kFromType) {
      const auto* inner = arguments.size() == 4 ? arguments[2]->as<PickleValue::Tuple>() : nullptr;
      const std::string_view made_by =
          inner != nullptr ? arguments[0]->global() : std::string_view();
      if (!is_maker(made_by) && made_by != kParameter)
        fail(fmt::format("tensor {}: it is of no kind that is known", quoted(name_here())));
      return add_tensor(made_by, inner->items);
    }
    if (const std::string_view problem = problem_of(function); !problem.empty())
      return add_unreadable(name_here(), fmt::format("{} ({})", problem, function));
    if (!is_maker(function)) return;

    std::string name = name_here();
    const bool typed = function != kTensorOfBytes;
    const std::size_t needed = function == kOldTensor ? 4 : typed ? 6 : 7;
    if (arguments.size() < needed || arguments.size() > needed + 1)
      fail_in(name, fmt::format("it is described by {} values", arguments.size()));
    if (arguments.size() > needed) refuse_bits(name, *arguments[needed]);
    const StorageId id = storage_id(name, *arguments[0]);
    const TorchDType* dtype = nullptr;
    for (const TorchDType& known : kTorchDTypes) {
      const bool same = typed ? !known.storage.empty() && known.storage == id.type
                              : known.name == arguments[6]->global();
      if (same) dtype = &known;
    }
    if (dtype == nullptr) fail_in(name, "its dtype is not known");
    if (!dtype->dtype)
      return add_unreadable(std::move(name),
                            fmt::format("dtype {} is not supported: convert it before it is saved, "
                                        "x.to(torch.float32) or another of Volta's dtypes",
                                        dtype->name));
    if (!typed && !contains_name(kUntyped, id.type))
      fail_in(name, "its storage has a dtype of its own");
    add_checked(std::move(name), *dtype, id, typed, arguments);
  }

  static bool is_maker(std::string_view function) {
    return function == kTensor || function == kOldTensor || function == kTensorOfBytes;
  }
  // Returns why the results of the function cannot be read, or an empty string if they can.
  static std::string_view problem_of(std::string_view function) {
    for (const auto& [name, problem] : kOtherTensors)
      if (name == function) return problem;
    return {};
  }
  void add_unreadable(std::string name, const std::string& problem) {
    spend(sizeof(FoundTensor) + problem.size(), "its tensors");
    FoundTensor tensor;
    tensor.problem = fmt::format("{}: tensor {}: {}", path_, quoted(name), problem);
    tensor.name = std::move(name);
    found_.push_back(std::move(tensor));
  }

  // Refuses the negative and conjugate bits, which PyTorch applies when values are read.
  void refuse_bits(const std::string& name, const PickleValue& value) const {
    const auto* bits = value.as<PickleValue::Dict>();
    const bool none = value.as<PickleValue::None>() != nullptr;
    if (!none && (bits == nullptr || !bits->items.empty()))
      fail_in(name,
              "it is a view of other signs than its storage: save x.resolve_neg() or "
              "x.resolve_conj()");
  }

  StorageId storage_id(const std::string& name, const PickleValue& value) const {
    const auto id = storage_id_of(value);
    if (!id) fail_in(name, "it has no storage");
    if (id->elements < 0) fail_in(name, "its storage is not described as torch.save does");
    return *id;
  }

  std::vector<std::int64_t> integers(const std::string& name, const char* what,
                                     const PickleValue& value) const {
    const PickleValues* items = value.items();
    if (items == nullptr) fail_in(name, fmt::format("its {} are no tuple", what));
    if (items->size() > static_cast<std::size_t>(kMaxRank))
      fail_in(name, fmt::format("{} axes, at most {}", items->size(), kMaxRank));
    std::vector<std::int64_t> numbers;
    for (const PickleValue* item : *items) {
      const auto* number = item->as<std::int64_t>();
      if (number == nullptr || *number < 0)
        fail_in(name, fmt::format("its {} must be integers from 0 to 2^63 - 1", what));
      numbers.push_back(*number);
    }
    return numbers;
  }

  // ---- Memory.
  // Returns the storage as elements of the dtype that Volta uses for it. It is checked and widened
  // once.
  const TorchBytes& elements_of(const std::string& name, const TorchDType& dtype,
                                const StorageId& id, bool typed) {
    const TorchBytes* stored = archive_.storage(id.key);
    if (stored == nullptr)
      fail_in(name, fmt::format("its storage {} is not in the archive", quoted(id.key)));
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(id.elements), typed ? dtype.size : 1,
                               &bytes) ||
        bytes != stored->bytes.size())
      fail_in(name, fmt::format("its storage {} has {} bytes, which are not {} elements",
                                quoted(id.key), stored->bytes.size(), id.elements));
    const auto [seen, is_new] = elements_.try_emplace({stored, &dtype});
    if (!is_new) return seen->second;
    if (!dtype.widened_from.empty()) {
      spend(stored->bytes.size() / dtype.size * size_of(*dtype.dtype), "its tensors, widened,");
      const OwnedBytes wide = widened(dtype.widened_from, stored->bytes,
                                      fmt::format("{}: tensor {}", path_, quoted(name)));
      return seen->second = {wide.bytes(), wide.owner()};
    }
    if (dtype.dtype == DType::boolean &&
        std::ranges::any_of(stored->bytes, [](std::byte b) { return b > std::byte{1}; }))
      fail_in(name, "a bool is neither 0 nor 1");
    return seen->second = *stored;
  }

  void add_checked(std::string name, const TorchDType& dtype, const StorageId& id, bool typed,
                   std::span<const PickleValue* const> arguments) {
    const auto* offset = arguments[1]->as<std::int64_t>();
    if (offset == nullptr || *offset < 0) fail_in(name, "its offset is no integer from 0 on");
    const std::vector<std::int64_t> sizes = integers(name, "sizes", *arguments[2]);
    std::vector<std::int64_t> strides = integers(name, "strides", *arguments[3]);
    if (sizes.size() != strides.size())
      fail_in(name, fmt::format("{} axes have {} strides", sizes.size(), strides.size()));

    FoundTensor tensor;
    tensor.dtype = *dtype.dtype;
    tensor.shape = shape_of(name, sizes);
    const TorchBytes& memory = elements_of(name, dtype, id, typed);
    tensor.name = std::move(name);
    const std::uint64_t size = size_of(tensor.dtype);
    std::uint64_t all = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(tensor.shape.numel()), size, &all) ||
        all > (std::uint64_t{1} << 62))
      fail_in(tensor.name, fmt::format("a tensor {} is too large", to_string(tensor.shape)));
    if (tensor.shape.numel() > 0) {
      const std::uint64_t last = last_element(*offset, sizes, strides);
      if (last >= memory.bytes.size() / size)
        fail_in(
            tensor.name,
            fmt::format("shape {} with strides [{}] at {} reaches past its storage of {} elements",
                        to_string(tensor.shape), fmt::join(strides, ", "), *offset,
                        memory.bytes.size() / size));
      tensor.data = memory.bytes.data() + static_cast<std::uint64_t>(*offset) * size;
    }
    tensor.contiguous = tensor.shape.numel() == 0 || are_rows(sizes, strides);
    for (std::size_t axis = 0; axis < sizes.size(); ++axis)
      if (sizes[axis] == 1) strides[axis] = 1;  // an axis of size 1 may have any stride
    tensor.strides = std::move(strides);
    tensor.owner = memory.owner;
    const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.data) % size == 0;
    if (to_device_ || !tensor.contiguous || !aligned) spend(all, "its tensors, copied,");
    spend(sizeof(FoundTensor), "its tensors");
    found_.push_back(std::move(tensor));
  }

  // Returns the largest uint64 on overflow.
  static std::uint64_t last_element(std::int64_t offset, std::span<const std::int64_t> sizes,
                                    std::span<const std::int64_t> strides) {
    auto last = static_cast<std::uint64_t>(offset);
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      std::uint64_t reach = 0;
      if (__builtin_mul_overflow(static_cast<std::uint64_t>(sizes[axis] - 1),
                                 static_cast<std::uint64_t>(strides[axis]), &reach) ||
          __builtin_add_overflow(last, reach, &last))
        return ~std::uint64_t{0};
    }
    return last;
  }

  Shape shape_of(const std::string& name, std::span<const std::int64_t> sizes) const {
    try {
      return Shape(sizes);
    } catch (const ShapeError& error) {
      fail_in(name, error.what());
    }
  }

  static bool are_rows(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
    std::int64_t expected = 1;
    for (std::size_t axis = sizes.size(); axis-- > 0;) {
      if (sizes[axis] == 1) continue;
      if (strides[axis] != expected) return false;
      expected *= sizes[axis];
    }
    return true;
  }

  const std::string& path_;
  std::uint64_t left_;  // bytes that may still be allocated
  bool to_device_;
  const Pickle::CheckGlobal check_global_;
  TorchArchive archive_;
  std::uint64_t visits_left_;
  std::map<std::pair<const TorchBytes*, const TorchDType*>, TorchBytes> elements_;
  std::vector<Part> way_;
  std::vector<FoundTensor> found_;
};

Tensor placed(const FoundTensor& tensor, Device device) {
  BlobOptions options;
  options.device = device;
  if (!tensor.contiguous) options.strides = tensor.strides;
  options.deleter = [owner = tensor.owner](void*) {};
  return from_blob(tensor.data, tensor.shape, tensor.dtype, std::move(options));
}

}  // namespace

void load_torch_file(const std::shared_ptr<const platform::MappedFile>& file,
                     const std::string& path, const LoadOptions& options, StateDict& state) {
  const Device device = options.device;
  const std::vector<FoundTensor> tensors = TorchFile(file, path, options).tensors();
  std::vector<detail::HostArray> arrays;
  if (!device.is_cpu()) {
    for (const FoundTensor& tensor : tensors)
      if (tensor.contiguous && tensor.problem.empty())
        arrays.push_back({tensor.data, tensor.shape, tensor.dtype});
  }
  std::vector<Tensor> moved;
  if (!arrays.empty()) moved = detail::upload_all("load", arrays, device);
  auto next = moved.begin();
  for (const FoundTensor& tensor : tensors) {
    if (state.contains(tensor.name) || state.unreadable().contains(tensor.name))
      throw IoError(fmt::format("{}: two tensors are named {}", path, json_excerpt(tensor.name)));
    if (!tensor.problem.empty()) {
      state.add_unreadable(tensor.name, tensor.problem);
      continue;
    }
    state.add(tensor.name,
              tensor.contiguous && !device.is_cpu() ? *next++ : placed(tensor, device));
  }
}

}  // namespace volta::io
