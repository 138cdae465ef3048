// The library's description of itself and of this machine, and the folder of compiled kernels.
#include "volta/system_info.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "volta/device.h"
#include "volta/error.h"
#include "volta/kernel_cache.h"
#include "volta/version.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

TEST(SystemInfo, TheBuildIsTold) {
  const BuildInfo build = build_info();
  EXPECT_EQ(build.version, version());
  EXPECT_TRUE(build.stamp.starts_with(build.version + "-"));
  EXPECT_NE(build.compiler.find('.'), std::string::npos);
  EXPECT_FALSE(build.type.empty());
  EXPECT_EQ(build.options.size(), 4U);
  EXPECT_TRUE(build.options[0].starts_with("VOLTA_ONEDNN="));
}

TEST(SystemInfo, LibrariesHaveAVersionOrAReason) {
  const auto check = [](const std::vector<LibraryInfo>& libraries) {
    for (const LibraryInfo& library : libraries)
      EXPECT_TRUE(!library.version.empty() || !library.note.empty()) << library.name;
  };
  EXPECT_EQ(libraries(DeviceType::cpu).size(), 3U);
  EXPECT_EQ(file_libraries().size(), 3U);
  check(libraries(DeviceType::cpu));
  check(file_libraries());
}

TEST(SystemInfo, AFamilyIsThereOrAbsentForAReason) {
  for (const DeviceType family : {DeviceType::cpu, DeviceType::cuda, DeviceType::opencl}) {
    const auto all = devices();
    const bool present =
        std::ranges::any_of(all, [&](Device device) { return device.type() == family; });
    EXPECT_EQ(why_absent(family).empty(), present);
    EXPECT_EQ(libraries(family).empty(), !present);
  }
}

TEST(SystemInfo, FreeMemoryIsPartOfAllMemory) {
  for (const Device device : devices()) {
    const auto free = free_memory(device);
    if (!free) continue;
    EXPECT_GT(*free, 0U) << device;
    EXPECT_LE(*free, device.total_memory()) << device;
  }
  EXPECT_TRUE(free_memory(Device::cpu()).has_value());
}

// A separate cache instead of the process's.
class KernelCacheFiles : public testing::Test {
 protected:
  KernelCacheFiles() {
    std::string name = (fs::temp_directory_path() / "volta_cache_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    if (const char* before = std::getenv("VOLTA_CACHE_DIR")) before_ = before;
    setenv("VOLTA_CACHE_DIR", folder_.c_str(), 1);
  }
  ~KernelCacheFiles() override {
    fs::remove_all(folder_);
    if (before_.empty()) {
      unsetenv("VOLTA_CACHE_DIR");
    } else {
      setenv("VOLTA_CACHE_DIR", before_.c_str(), 1);
    }
  }
  fs::path put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  fs::path folder_;
  std::string before_;
};

TEST_F(KernelCacheFiles, OnlyVoltasAreFoundAndRemoved) {
  const std::string key(32, '0');
  const fs::path entry = put(key + ".bin", "VOLTAK02 and more");
  const fs::path left = put(key + ".bin." + std::string(16, 'f') + ".tmp", "half");
  const fs::path fresh = put(key + ".bin." + std::string(16, 'e') + ".tmp", "half");
  const fs::path foreign = put(std::string(32, '1') + ".bin", "PNG");
  const fs::path other = put("README", "VOLTAK02");
  const int writer = ::open(fresh.c_str(), O_WRONLY);  // like a process that is writing it
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);

  EXPECT_EQ(kernel_cache_folder(), folder_.string());
  const std::vector<KernelCacheFile> found = kernel_cache_files();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].path, entry.string());  // the shorter name comes first
  EXPECT_EQ(found[0].bytes, 17U);
  EXPECT_EQ(clear_kernel_cache().size(), 2U);
  EXPECT_TRUE(!fs::exists(entry) && !fs::exists(left));
  EXPECT_TRUE(fs::exists(fresh) && fs::exists(foreign) && fs::exists(other));
  EXPECT_TRUE(kernel_cache_files().empty());
  ::close(writer);
  EXPECT_EQ(clear_kernel_cache().size(), 1U);
}

TEST_F(KernelCacheFiles, AFolderThatIsNotThereHasNone) {
  setenv("VOLTA_CACHE_DIR", (folder_ / "missing").c_str(), 1);
  EXPECT_TRUE(kernel_cache_files().empty());
  setenv("VOLTA_CACHE_DIR", put("file", "").c_str(), 1);
  EXPECT_THROW(kernel_cache_files(), IoError);
}

}  // namespace
}  // namespace volta
