// The memory of nodes, tapes and variables is recycled, except under AddressSanitizer.
#include "core/slab.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace volta {
namespace {

struct Sample {
  std::int64_t numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
};

TEST(Slab, GivesObjectsThatDoNotOverlap) {
  Sample* a = Slab<Sample>::make();
  Sample* b = Slab<Sample>::make();
  a->numbers[7] = 0;
  EXPECT_EQ(b->numbers[0], 1);
  EXPECT_EQ(b->numbers[7], 8);
  Slab<Sample>::destroy(a);
  Slab<Sample>::destroy(b);
}

#if defined(VOLTA_SLAB_FROM_HEAP)
TEST(SlabDeathTest, AddressSanitizerSeesTheUseOfAnObjectThatIsGone) {
  Sample* gone = Slab<Sample>::make();
  Slab<Sample>::destroy(gone);
  EXPECT_DEATH(
      {
        volatile std::int64_t* number = gone->numbers;
        number[3] = 1;
      },
      "heap-use-after-free");
}
#endif

}  // namespace
}  // namespace volta
