// What calls of oneDNN share. Included by files that have the library only.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#ifdef VOLTA_HAS_OPENMP
#include <omp.h>
#endif

#include "platform/env.h"
#include "volta/dtype.h"

namespace volta::cpu {

// VOLTA_ONEDNN=off: everything by our own kernels.
inline bool onednn_is_on() {
  static const bool on = platform::environment("VOLTA_ONEDNN") != "off";
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
