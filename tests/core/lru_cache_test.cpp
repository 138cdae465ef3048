// LruCache: its bounds, and what it evicts.
#include "core/lru_cache.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace volta {
namespace {

using Cache = LruCache<int, std::string, std::hash<int>, 3, 100>;

TEST(LruCache, EvictsTheLeastRecentlyUsed) {
  Cache cache;
  for (const int key : {1, 2, 3}) cache.insert(key, std::to_string(key), 10);
  ASSERT_NE(cache.find(1), nullptr);
  cache.insert(4, "4", 10);
  EXPECT_EQ(cache.find(2), nullptr);
  ASSERT_NE(cache.find(1), nullptr);
  EXPECT_EQ(*cache.find(1), "1");
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(cache.bytes(), 30u);
}

TEST(LruCache, KeepsToItsBytesButForTheLatest) {
  Cache cache;
  cache.insert(1, "1", 60);
  cache.insert(2, "2", 60);
  EXPECT_EQ(cache.find(1), nullptr);
  EXPECT_EQ(cache.bytes(), 60u);
  cache.insert(3, "3", 500);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_NE(cache.find(3), nullptr);
}

TEST(LruCache, ReplacesAndClears) {
  Cache cache;
  cache.insert(1, "1", 10);
  cache.insert(1, "one", 30);
  EXPECT_EQ(*cache.find(1), "one");
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.bytes(), 30u);
  cache.clear();
  EXPECT_EQ(cache.find(1), nullptr);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.bytes(), 0u);
}

}  // namespace
}  // namespace volta
