// The disk cache of compiled kernels: round trips, damage, and folders that cannot be used.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "kernel/cache.h"
#include "kernel/cache_folder.h"
#include "volta/log.h"

namespace volta::testing {
namespace {

namespace fs = std::filesystem;

class KernelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::temp_directory_path() / ("volta_cache_test_" + std::to_string(std::random_device{}()));
    set_log_handler([this](LogLevel level, std::string_view text) {
      if (level != LogLevel::warning) return;
      ++warnings_;
      warning_ = text;
    });
    mask_ = ::umask(022);
  }
  void TearDown() override {
    ::umask(mask_);
    set_log_handler({});
    fs::remove_all(folder_);
  }

  fs::path entry(const std::string& key) const { return folder_ / (key + ".bin"); }
  std::string read(const fs::path& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const fs::path& path, const std::string& bytes) const {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  fs::path folder_;
  int warnings_ = 0;
  std::string warning_;
  mode_t mask_ = 0;
  std::string binary_;
};

TEST_F(KernelCacheTest, MissingEntryAndFolder) {
  kernel::CacheFolder cache(folder_);
  EXPECT_FALSE(cache.load("absent", binary_));
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_EQ(warnings_, 0);
}

TEST_F(KernelCacheTest, RoundTripLeavesNoTemporaryFile) {
  kernel::CacheFolder cache(folder_ / "made" / "when needed");
  const std::string bytes("kernel\0with\nodd bytes\xff", 22);
  cache.store("key", bytes);
  cache.store("empty", "");
  ASSERT_TRUE(cache.load("key", binary_));
  EXPECT_EQ(binary_, bytes);
  ASSERT_TRUE(cache.load("empty", binary_));
  EXPECT_EQ(binary_, "");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "made" / "when needed"), {}), 2);
}

TEST_F(KernelCacheTest, IsMadeForItsUserAlone) {
  ::umask(0);
  kernel::CacheFolder cache(folder_ / "below");
  cache.store("key", "binary");
  for (const fs::path& made : {folder_, folder_ / "below"}) {
    EXPECT_EQ(fs::status(made).permissions(), fs::perms::owner_all) << made;
  }
  EXPECT_TRUE(cache.load("key", binary_));
  EXPECT_EQ(warnings_, 0);
}

// Whoever can write an entry can run kernels in this process.
TEST_F(KernelCacheTest, AFolderThatOthersMayWriteToIsRefused) {
  for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
    fs::create_directories(folder_);
    fs::permissions(folder_, fs::perms::owner_all);
    kernel::CacheFolder(folder_).store("key", "binary");
    fs::permissions(folder_, fs::perms::owner_all | others);
    warnings_ = 0;
    kernel::CacheFolder cache(folder_);
    EXPECT_FALSE(cache.load("key", binary_));
    cache.store("other", "binary");
    EXPECT_FALSE(fs::exists(entry("other")));
    EXPECT_EQ(warnings_, 1);
    EXPECT_EQ(warning_, "kernel cache: others may write to " + folder_.string() +
                            " (chmod go-w would mend that); kernels will be compiled again in "
                            "every process");
  }
}

TEST_F(KernelCacheTest, AFolderOfAnotherUserIsRefused) {
  kernel::CacheFolder(folder_).store("key", "binary");
  if (::chown(folder_.c_str(), 12345, static_cast<gid_t>(-1)) != 0)
    GTEST_SKIP() << "only root gives folders away";
  kernel::CacheFolder cache(folder_);
  EXPECT_FALSE(cache.load("key", binary_));
  cache.store("other", "binary");
  EXPECT_FALSE(fs::exists(entry("other")));
  EXPECT_EQ(warnings_, 1);
  EXPECT_NE(warning_.find("belongs to another user (number 12345)"), std::string::npos) << warning_;
}

TEST_F(KernelCacheTest, StoreReplaces) {
  kernel::CacheFolder cache(folder_);
  cache.store("key", "one");
  cache.store("key", "two");
  ASSERT_TRUE(cache.load("key", binary_));
  EXPECT_EQ(binary_, "two");
}

TEST_F(KernelCacheTest, CorruptEntryIsDeletedAndRebuilt) {
  kernel::CacheFolder cache(folder_);
  cache.store("key", "some binary");
  std::string bytes = read(entry("key"));
  bytes.back() ^= 1;
  write(entry("key"), bytes);
  EXPECT_FALSE(cache.load("key", binary_));
  EXPECT_FALSE(fs::exists(entry("key")));
  cache.store("key", "some binary");
  EXPECT_TRUE(cache.load("key", binary_));
}

TEST_F(KernelCacheTest, TruncatedEntriesAreDeleted) {
  kernel::CacheFolder cache(folder_);
  cache.store("key", "some binary");
  const std::string bytes = read(entry("key"));
  for (const std::size_t length :
       {bytes.size() - 1, bytes.size() / 2, std::size_t{5}, std::size_t{0}}) {
    write(entry("key"), bytes.substr(0, length));
    EXPECT_FALSE(cache.load("key", binary_)) << length;
    EXPECT_FALSE(fs::exists(entry("key"))) << length;
  }
}

TEST_F(KernelCacheTest, ForeignFileIsDeleted) {
  kernel::CacheFolder cache(folder_);
  fs::create_directories(folder_);
  write(entry("key"), std::string(100, 'x'));
  EXPECT_FALSE(cache.load("key", binary_));
  EXPECT_FALSE(fs::exists(entry("key")));
}

TEST_F(KernelCacheTest, AnEntryOfAnotherKeyIsDeleted) {
  kernel::CacheFolder cache(folder_);
  cache.store("one", "its binary");
  cache.store("two", "another");
  fs::copy_file(entry("one"), entry("two"), fs::copy_options::overwrite_existing);
  EXPECT_FALSE(cache.load("two", binary_));
  EXPECT_FALSE(fs::exists(entry("two")));
  EXPECT_TRUE(cache.load("one", binary_));
}

TEST_F(KernelCacheTest, AFolderInTheEntrysPlaceIsAbsent) {
  fs::create_directories(entry("key"));
  fs::create_directories(entry("full") / "below");
  kernel::CacheFolder cache(folder_);
  EXPECT_FALSE(cache.load("key", binary_));
  EXPECT_FALSE(cache.load("full", binary_));
  cache.store("key", "binary");  // the empty folder was removed
  EXPECT_TRUE(cache.load("key", binary_));
  EXPECT_EQ(warnings_, 0);
}

TEST_F(KernelCacheTest, APipeInTheEntrysPlaceIsNotWaitedFor) {
  fs::create_directories(folder_);
  ASSERT_EQ(::mkfifo(entry("key").c_str(), 0600), 0);
  ASSERT_EQ(::symlink(entry("key").c_str(), entry("link").c_str()), 0);
  kernel::CacheFolder cache(folder_);
  EXPECT_FALSE(cache.load("link", binary_));
  EXPECT_FALSE(cache.load("key", binary_));
  cache.store("key", "binary");
  EXPECT_TRUE(cache.load("key", binary_));
}

// Root can write despite permissions, so a file in the folder's place stands for a folder that
// cannot be created.
TEST_F(KernelCacheTest, FolderThatCannotBeMadeWarnsOnce) {
  write(folder_, "a file");
  kernel::CacheFolder cache(folder_ / "below");
  cache.store("key", "binary");
  cache.store("key", "binary");
  EXPECT_FALSE(cache.load("key", binary_));
  EXPECT_EQ(warnings_, 1);
}

TEST_F(KernelCacheTest, ReadOnlyFolderStillServesItsEntries) {
  kernel::CacheFolder(folder_).store("key", "binary");
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  std::ofstream probe(folder_ / "probe");
  const bool ignored = probe.is_open();
  probe.close();
  if (ignored) fs::remove(folder_ / "probe");
  kernel::CacheFolder cache(folder_);
  if (!ignored) {
    cache.store("other", "binary");
    cache.store("another", "binary");
    EXPECT_EQ(warnings_, 1);
    EXPECT_FALSE(cache.load("other", binary_));
  }
  EXPECT_TRUE(cache.load("key", binary_));
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST_F(KernelCacheTest, EntryThatCannotBeReplacedWarnsOnce) {
  fs::create_directories(entry("key") / "a folder in the entry's place");
  kernel::CacheFolder cache(folder_);
  cache.store("key", "binary");
  cache.store("key", "binary");
  EXPECT_EQ(warnings_, 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(KernelCacheTest, WithoutAFolderWarnsOnce) {
  kernel::CacheFolder cache{fs::path()};
  cache.store("key", "binary");
  cache.store("key", "binary");
  EXPECT_FALSE(cache.load("key", binary_));
  EXPECT_EQ(warnings_, 1);
}

TEST(KernelCacheKey, DependsOnEveryPartAndKeepsThemApart) {
  const std::string key = kernel::KernelCache::key("source", "options", "sm_90", "13.0");
  EXPECT_EQ(key.size(), 32u);
  EXPECT_EQ(key, kernel::KernelCache::key("source", "options", "sm_90", "13.0"));
  EXPECT_NE(key, kernel::KernelCache::key("Source", "options", "sm_90", "13.0"));
  EXPECT_NE(key, kernel::KernelCache::key("source", "option", "sm_90", "13.0"));
  EXPECT_NE(key, kernel::KernelCache::key("source", "options", "sm_80", "13.0"));
  EXPECT_NE(key, kernel::KernelCache::key("source", "options", "sm_90", "12.9"));
  EXPECT_NE(key, kernel::KernelCache::key("sourceo", "ptions", "sm_90", "13.0"));
}

}  // namespace
}  // namespace volta::testing
