// What calls of oneDNN share. Included by files that have the library only.
#pragma once

#include <sys/mman.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#ifdef VOLTA_HAS_OPENMP
#include <omp.h>
#endif

#include "backend/cpu/processor.h"
#include "platform/env.h"
#include "platform/parallel.h"
#include "volta/dtype.h"
#include "volta/error.h"

namespace volta::cpu {

// VOLTA_ONEDNN=off: everything by our own kernels. Asked before every other call of the library, so
// that its instructions are limited before it chooses them.
inline bool onednn_is_on() {
  static const bool on = [] {
    limit_onednn_instructions();
    return platform::environment("VOLTA_ONEDNN") != "off";
  }();
  return on;
}

// Whether the processor multiplies bf16. Without such instructions oneDNN converts operands in its
// inner loops, which takes longer than converting them before.
inline bool onednn_has_bf16() {
  static const bool has = [] {
    const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
    return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
  }();
  return has;
}

// Of f32 or bf16.
inline dnnl::memory::data_type onednn_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  return dtype == DType::bf16 ? Type::bf16 : Type::f32;
}

inline dnnl::engine& onednn_engine() {
  // Outlives objects with static storage.
  static auto* cpu = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *cpu;
}

// What oneDNN says as ours.
[[noreturn]] inline void throw_onednn(const std::string& what, const dnnl::error& error) {
  const std::string message = what + ": " + error.what();
  if (error.status == dnnl_out_of_memory) throw OutOfMemory(message);
  throw BackendError(message);
}

// Before oneDNN prepares anything: it writes code into memory that it does not check, and crashes
// where there is none. What it takes for one operation is far less than is asked for here.
inline void require_room_for_onednn() {
  constexpr std::size_t kRoom = std::size_t{32} << 20;
  void* const room = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    throw OutOfMemory("cpu: there is no memory for oneDNN to prepare an operation in");
  ::munmap(room, kRoom);
}

// Some operations write their code when they first run. Which have run is remembered for the latest
// few hundred; one that was forgotten is asked for once more.
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

// Memory of others. Telling the library an address takes it a moment, and most addresses are those
// of the run before.
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

// A product of two matrices, or batches of them, with its memory; the scratchpad is the caller's.
struct ProductCall {
  ProductCall(const dnnl::matmul::primitive_desc& product, bool has_bias)
      : primitive(product),
        a(product.src_desc()),
        b(product.weights_desc()),
        c(product.dst_desc()),
        scratchpad(product.scratchpad_desc()),
        scratch_bytes((product.scratchpad_desc().get_size() + 63) / 64 * 64),
        arguments{{DNNL_ARG_SRC, a.memory()},
                  {DNNL_ARG_WEIGHTS, b.memory()},
                  {DNNL_ARG_DST, c.memory()},
                  {DNNL_ARG_SCRATCHPAD, scratchpad.memory()}} {
    if (!has_bias) return;
    bias = Bound(product.bias_desc());
    arguments.emplace(DNNL_ARG_BIAS, bias.memory());
  }

  // `bias` is looked at only if there is one.
  static dnnl::matmul::primitive_desc described(const dnnl::memory::desc& a,
                                                const dnnl::memory::desc& b,
                                                const dnnl::memory::desc& bias,
                                                const dnnl::memory::desc& c, bool has_bias) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return {has_bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attr,
            onednn_engine()};
  }

  void execute() const { run_onednn(primitive, stream, arguments); }

  dnnl::matmul primitive;
  Bound a, b, c, bias, scratchpad;
  std::size_t scratch_bytes;  // a multiple of a cache line
  std::unordered_map<int, dnnl::memory> arguments;
  dnnl::stream stream{onednn_engine()};
};

// While it lives, oneDNN plans and runs on the calling thread alone.
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
