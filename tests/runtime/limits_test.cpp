// A process whose memory is limited: operations that do not fit end in OutOfMemory, not in an abort
// of a library.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <new>
#include <string>

#include "support/child.h"
#include "support/peak_memory.h"
#include "volta/volta.h"

namespace volta {
namespace {

// Limit of address space beyond what the process has.
constexpr const char* kMore = "VOLTA_TEST_MORE_KB";

// Uses a little of the CPU backend: its loops, oneDNN's products and convolutions, gradients.
void work() {
  nn::Conv2d conv(3, 16, 3, {.padding = 1});
  nn::Linear linear(256, 256);
  const Tensor images = rand({4, 3, 32, 32}), rows = rand({128, 256});
  const Tensor loss = conv(images).relu().sum() + linear(rows).tanh().sum();
  loss.backward();
  linear.weight->grad().eval();
  ones({1 << 20}).exp().sum().item();
}

// Expects that the work succeeds or throws OutOfMemory.
void expect_work_or_out_of_memory() {
  const rlim_t most =
      memory_status("VmSize") + std::strtoull(std::getenv(kMore), nullptr, 10) * 1024;
  const rlimit limit{most, most};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  try {
    work();
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()), "");
  } catch (const std::bad_alloc&) {  // for a few bytes of a host object
  }
}

TEST(Limits, AddressSpaceThatRunsOutIsOutOfMemory) {
  if (testing_child::is_child()) return expect_work_or_out_of_memory();
  // From nearly nothing to enough: threads, their stacks, oneDNN's code and the tensors each run
  // out of memory at one of these limits.
  for (const int kilobytes : {512, 1024, 2048, 4096, 6144, 8192, 10240, 12288, 16384, 20480, 24576,
                              32768, 49152, 65536, 98304, 131072, 196608, 262144}) {
    SCOPED_TRACE(std::to_string(kilobytes) + " KB");
    testing_child::in_child({{kMore, std::to_string(kilobytes)}, {"VOLTA_NUM_THREADS", "4"}},
                            [] { expect_work_or_out_of_memory(); });
  }
}

}  // namespace
}  // namespace volta
