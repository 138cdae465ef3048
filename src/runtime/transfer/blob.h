// Foreign memory as tensors.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "graph/record/node.h"

namespace volta::graph {

// Runs a function once: on request, or in the destructor.
class Once {
 public:
  explicit Once(std::function<void()> act) : act_(std::move(act)) {}
  Once(Once&& other) noexcept : act_(std::exchange(other.act_, {})) {}
  Once& operator=(Once&& other) noexcept {
    run();
    act_ = std::exchange(other.act_, {});
    return *this;
  }
  ~Once() { run(); }
  void run() {
    if (const auto act = std::exchange(act_, {})) act();
  }
  // Passes the function to the caller, who must run it.
  std::function<void()> take() { return std::exchange(act_, {}); }

 private:
  std::function<void()> act_;
};

// Elements in foreign memory. `strides` are in elements; empty means a dense row-major array.
struct Foreign {
  Address address;
  DeviceEntry* entry;
  DType dtype;
  const Shape* shape;
  std::span<const std::int64_t> strides;
  bool changes = true;  // the owner may write to it while the tensor lives
};
// Makes a tensor on foreign memory. It is a copy if `copy_to` names a device, or if the memory
// cannot be used in place. `give_back` is called when the memory is no longer used.
Tensor from_foreign(const char* op, const Foreign& memory, std::optional<Device> copy_to,
                    Once give_back, SourceLocation place);
// Makes a CPU tensor on memory that nobody writes to while the tensor lives.
Tensor on_steady_memory(void* memory, const Shape& shape, DType dtype, Once give_back);

}  // namespace volta::graph
