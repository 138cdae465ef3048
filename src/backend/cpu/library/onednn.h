// Shared by the files that call oneDNN; included only in builds that have the library.
#pragma once

#include <sys/mman.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#ifdef VOLTA_HAS_OPENMP
#include <omp.h>
#endif

#include "backend/cpu/library/onednn_memory.h"
#include "backend/cpu/vector/processor.h"
#include "platform/env.h"
#include "platform/parallel.h"
#include "volta/dtype.h"
#include "volta/error.h"

namespace volta::cpu {

// False under VOLTA_ONEDNN=off, which leaves everything to our own kernels. This is asked before
// any other call of the library, so that its instruction set is limited before it chooses one.
inline bool onednn_is_on() {
  static const bool on = [] {
    limit_onednn_instructions();
    return platform::environment("VOLTA_ONEDNN") != "off";
  }();
  return on;
}

// Whether the processor multiplies bf16. Without such instructions oneDNN converts operands in its
// inner loops, which is slower than converting them beforehand.
inline bool onednn_has_bf16() {
  static const bool has = [] {
    const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
  }();
  return has;
}

// The oneDNN type of f32 or bf16.
inline dnnl::memory::data_type onednn_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  return dtype == DType::bf16 ? Type::bf16 : Type::f32;
}

inline dnnl::engine& onednn_engine() {
  // Never destroyed: it must outlive static objects that use it.
  static auto* cpu = [] {
    // The library keeps unused primitives, by default 1024 of them.
    dnnl::set_primitive_cache_capacity(kUnusedPrimitives);
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *cpu;
}

// Identifies a primitive by the layouts of its operands, which may be left to the library.
inline std::vector<std::int64_t> onednn_key(
    std::int64_t kind, std::initializer_list<const dnnl::memory::desc*> operands) {
  std::vector<std::int64_t> key{kind};
  for (const dnnl::memory::desc* operand : operands) {
    const dnnl_memory_desc_t& desc = operand->data;
    const dnnl_blocking_desc_t& layout = desc.format_desc.blocking;
    const bool is_laid_out = desc.format_kind == dnnl_blocked;
    key.push_back(desc.data_type);
    key.push_back(desc.format_kind);
    for (int axis = 0; axis < desc.ndims; ++axis) {
      key.push_back(desc.dims[axis]);
      if (is_laid_out) key.push_back(layout.strides[axis]);
    }
    for (int block = 0; is_laid_out && block < layout.inner_nblks; ++block) {
      key.push_back(layout.inner_blks[block]);
      key.push_back(layout.inner_idxs[block]);
    }
  }
  return key;
}

// Rethrows an error of oneDNN as one of Volta's.
[[noreturn]] inline void throw_onednn(const std::string& what, const dnnl::error& error) {
  const std::string message = what + ": " + error.what();
  if (error.status == dnnl_out_of_memory) throw OutOfMemory(message);
  throw BackendError(message);
}

// To be called before oneDNN prepares anything: it generates code without checking that it got
// memory, and crashes if there was none. An operation needs far less than is tested for here.
inline void require_room_for_onednn() {
  constexpr std::size_t kRoom = std::size_t{32} << 20;
  void* const room = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    throw OutOfMemory("cpu: there is no memory for oneDNN to prepare an operation in");
  ::munmap(room, kRoom);
}

// Some operations generate their code when they first run. A table remembers a few hundred that
// have run; for one that was forgotten, the test is merely repeated.
inline void require_room_for_first_run(const dnnl::primitive& primitive) {
  static std::array<std::atomic<const void*>, 256> ran{};
  const void* const handle = primitive.get();
  auto& place = ran[reinterpret_cast<std::uintptr_t>(handle) / 64 % ran.size()];
  if (place.load(std::memory_order_relaxed) == handle) [[likely]]
    return;
  require_room_for_onednn();
  place.store(handle, std::memory_order_relaxed);
}

inline void run_onednn(const dnnl::primitive& primitive, const dnnl::stream& stream,
                       const std::unordered_map<int, dnnl::memory>& arguments) {
  platform::prepare_library_threads();
  require_room_for_first_run(primitive);
  try {
    primitive.execute(stream, arguments);
  } catch (const dnnl::error& error) {
    throw_onednn("oneDNN cannot run", error);
  }
}

// A oneDNN memory object for a caller's buffer. Setting an address takes the library some time, and
// most addresses are the same as in the previous run.
class Bound {
 public:
  Bound() = default;
  explicit Bound(const dnnl::memory::desc& desc) : memory_(desc, onednn_engine(), nullptr) {}

  const dnnl::memory& memory() const { return memory_; }
  void set(const void* address) {
    if (address == address_) return;
    memory_.set_data_handle(const_cast<void*>(address));
    address_ = address;
  }

 private:
  dnnl::memory memory_;
  const void* address_ = nullptr;
};

// While this object lives, oneDNN plans and runs on the calling thread alone.
class OneThread {
 public:
#ifdef VOLTA_HAS_OPENMP
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  int before_;
#endif
};

}  // namespace volta::cpu
