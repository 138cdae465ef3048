// What the host can do at best, measured without the library: copying and reading memory with all
// threads, and oneDNN's own matrix product.
#pragma once

#include <cstdint>
#include <cstring>
#include <thread>
#include <unordered_map>
#include <vector>

#ifdef VOLTA_BENCH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include "measuring.h"

namespace bench {

class HostLimits {
 public:
  explicit HostLimits(int threads) : threads_(threads), source_(kWords), target_(kWords) {
    for (std::size_t i = 0; i < kWords; ++i) source_[i] = i * 0x9E3779B97F4A7C15u;
  }

  // Bytes a second, read and written ones both counted.
  double copy_rate() {
    return 2 * rate([this](std::size_t begin, std::size_t end) {
             std::memcpy(&target_[begin], &source_[begin], (end - begin) * sizeof(std::uint64_t));
           });
  }
  double read_rate() {
    return rate([this](std::size_t begin, std::size_t end) {
      std::uint64_t mixed = 0;  // integers: compilers vectorise this without leave to reorder
      for (std::size_t i = begin; i < end; ++i) mixed ^= source_[i];
      volatile std::uint64_t seen = mixed;
      (void)seen;
    });
  }

 private:
  static constexpr std::size_t kWords = std::size_t{32} << 20;  // 256 MiB: no cache holds it

  template <class Body>
  double rate(const Body& body) const {
    const auto pass = [&] {
      std::vector<std::jthread> others;
      const std::size_t share = kWords / static_cast<std::size_t>(threads_);
      for (int t = 1; t < threads_; ++t) {
        const std::size_t begin = static_cast<std::size_t>(t) * share;
        others.emplace_back(body, begin, t + 1 == threads_ ? kWords : begin + share);
      }
      body(0, threads_ == 1 ? kWords : share);
    };
    pass();
    const Timing timing = time_blocks(pass, [] {}, 9, 1);
    return kWords * sizeof(std::uint64_t) / (timing.median_ms * 1e-3);
  }

  int threads_;
  std::vector<std::uint64_t> source_, target_;
};

// Milliseconds of an n x n x n product in f32 called directly, with oneDNN's own threads; 0 where
// the bench is built without it.
inline double direct_product_ms([[maybe_unused]] std::int64_t n) {
#ifdef VOLTA_BENCH_ONEDNN
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream queue(engine);
  const dnnl::memory::desc matrix({n, n}, dnnl::memory::data_type::f32,
                                  dnnl::memory::format_tag::ab);
  const dnnl::matmul product({dnnl::matmul::desc(matrix, matrix, matrix), engine});
  std::vector<float> values[3];
  for (std::vector<float>& v : values) {
    v.resize(static_cast<std::size_t>(n * n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 61) / 61 - 0.5f;
  }
  const std::unordered_map<int, dnnl::memory> arguments = {
      {DNNL_ARG_SRC, dnnl::memory(matrix, engine, values[0].data())},
      {DNNL_ARG_WEIGHTS, dnnl::memory(matrix, engine, values[1].data())},
      {DNNL_ARG_DST, dnnl::memory(matrix, engine, values[2].data())}};
  const auto run = [&] { product.execute(queue, arguments); };
  const auto wait = [&] { queue.wait(); };
  run();
  wait();
  const auto start = Clock::now();
  run();
  wait();
  const double estimate = seconds_since(start);
  return time_blocks(run, wait, block_count(estimate), block_steps(estimate)).median_ms;
#else
  return 0;
#endif
}

}  // namespace bench
