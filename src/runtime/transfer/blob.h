// Memory of others as buffers.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "graph/node.h"

namespace volta::graph {

// Runs a function once: when told to, or at the end of its life.
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
  // Leaves it to the caller.
  std::function<void()> take() { return std::exchange(act_, {}); }

 private:
  std::function<void()> act_;
};

// Elements in memory that is not Volta's, `strides` in elements (none: row by row).
struct Foreign {
  Address address;
  DeviceEntry* entry;
  DType dtype;
  const Shape* shape;
  std::span<const std::int64_t> strides;
  bool changes = true;  // its owner may write to it while the tensor lives
};
// A tensor on that memory, or of a copy: where one is wanted (on which device), and where the
// memory cannot be used as it is. `give_back` is called when it is used no more.
Tensor from_foreign(const char* op, const Foreign& memory, std::optional<Device> copy_to,
                    Once give_back, Place place);
// A CPU tensor on memory that nobody writes to while it lives.
Tensor on_steady_memory(void* memory, const Shape& shape, DType dtype, Once give_back);

}  // namespace volta::graph
