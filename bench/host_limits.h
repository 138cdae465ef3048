// The limits of the host's memory, measured without the library: copying and reading with all
// threads.
#pragma once

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "measuring.h"

namespace bench {

class HostLimits {
 public:
  explicit HostLimits(int threads) : threads_(threads), source_(kWords), target_(kWords) {
    for (std::size_t i = 0; i < kWords; ++i) source_[i] = i * 0x9E3779B97F4A7C15u;
  }

  // Bytes per second, counting both those read and those written.
  double copy_rate() {
    return 2 * rate([this](std::size_t begin, std::size_t end) {
             std::memcpy(&target_[begin], &source_[begin], (end - begin) * sizeof(std::uint64_t));
           });
  }
  double read_rate() {
    return rate([this](std::size_t begin, std::size_t end) {
      // Integers, because compilers vectorise their sum without permission to reorder.
      std::uint64_t mixed = 0;
      for (std::size_t i = begin; i < end; ++i) mixed ^= source_[i];
      volatile std::uint64_t seen = mixed;
      (void)seen;
    });
  }

 private:
  static constexpr std::size_t kWords = std::size_t{32} << 20;  // 256 MiB, larger than any cache

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

}  // namespace bench
