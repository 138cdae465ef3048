// What calls of oneDNN share. Included by files that have the library only.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#ifdef VOLTA_HAS_OPENMP
#include <omp.h>
#endif

#include "platform/env.h"

namespace volta::cpu {

// VOLTA_ONEDNN=off: everything by our own kernels.
inline bool onednn_is_on() {
  static const bool on = platform::environment("VOLTA_ONEDNN") != "off";
  return on;
}

inline dnnl::engine& onednn_engine() {
  // Outlives objects with static storage.
  static auto* cpu = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *cpu;
}

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
