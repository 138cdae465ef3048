// InlineVector: elements are constructed once, moved when it outgrows its inline room, and
// destroyed once.
#include "core/inline_vector.h"

#include <gtest/gtest.h>

#include <utility>

namespace volta {
namespace {

// Counts the living objects, including those that were moved from.
struct Counted {
  static inline int alive = 0;
  int value;
  explicit Counted(int v) : value(v) { ++alive; }
  Counted(Counted&& other) noexcept : value(std::exchange(other.value, -1)) { ++alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --alive; }
};

TEST(InlineVector, GrowsPastItsOwnRoomAndDestroysEverythingOnce) {
  Counted::alive = 0;
  {
    InlineVector<Counted, 2> list;
    EXPECT_EQ(Counted::alive, 0);  // reserved room contains no elements
    for (int i = 0; i < 9; ++i) EXPECT_EQ(list.emplace_back(i).value, i);
    EXPECT_EQ(list.size(), 9u);
    EXPECT_EQ(Counted::alive, 9);
    int expected = 0;
    for (const Counted& element : list) EXPECT_EQ(element.value, expected++);
    list.clear();
    EXPECT_TRUE(list.empty());
    EXPECT_EQ(Counted::alive, 0);
    list.emplace_back(7);
    EXPECT_EQ(list[0].value, 7);
  }
  EXPECT_EQ(Counted::alive, 0);
}

TEST(InlineVector, ReservedElementsDoNotMove) {
  InlineVector<Counted, 2> list;
  list.reserve(5);
  const Counted& first = list.emplace_back(1);
  for (int i = 2; i <= 5; ++i) list.emplace_back(i);
  EXPECT_EQ(&first, &list[0]);
  EXPECT_EQ(first.value, 1);
}

}  // namespace
}  // namespace volta
