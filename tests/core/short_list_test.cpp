// Vectors that are copied and keep few elements inline.
#include "core/short_list.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace {

using volta::ShortList;
using List = ShortList<int, 3>;

std::vector<int> elements(const List& list) { return {list.begin(), list.end()}; }

List counted(int count) {
  List list;
  for (int i = 0; i < count; ++i) list.resize(list.size() + 1, i);
  return list;
}

TEST(ShortLists, HoldWhatIsPutIntoThem) {
  EXPECT_TRUE(List().empty());
  EXPECT_EQ(elements(List(2, 7)), (std::vector<int>{7, 7}));
  List list = counted(7);  // from inline memory to the heap
  EXPECT_EQ(elements(list), (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
  list.erase(list.begin() + 5);
  list.erase(list.begin());
  EXPECT_EQ(elements(list), (std::vector<int>{1, 2, 3, 4, 6}));
  list.resize(2);
  EXPECT_EQ(elements(list), (std::vector<int>{1, 2}));
  list[1] = 9;
  EXPECT_EQ(std::as_const(list)[1], 9);
}

TEST(ShortLists, CopiesAndMovesAreIndependent) {
  for (const int from : {0, 2, 3, 4, 9}) {
    for (const int to : {0, 2, 3, 4, 9}) {
      const List source = counted(from);
      List copy = counted(to);
      copy = source;
      EXPECT_EQ(copy, source);
      copy.resize(copy.size() + 1, -1);
      EXPECT_FALSE(copy == source);
      List moved = counted(to);
      List other = source;
      moved = std::move(other);
      EXPECT_EQ(moved, source);
      EXPECT_TRUE(other.empty());  // NOLINT(bugprone-use-after-move): moved lists are empty
      other.resize(4, 8);
      EXPECT_EQ(elements(other), (std::vector<int>(4, 8)));
      EXPECT_EQ(moved, source);
      const List& same = moved;
      moved = same;
      EXPECT_EQ(moved, source);
      EXPECT_EQ(List(std::move(moved)), source);
    }
  }
}

}  // namespace
