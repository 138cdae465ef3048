// Backends are found, refused with a reason, and not loaded before they are named.
#include "backend/registry.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend_loader.h"
#include "platform/env.h"
#include "platform/library.h"
#include "volta/error.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

// A new folder, removed after the test.
class BackendLoading : public testing::Test {
 protected:
  BackendLoading() {
    std::string name = (fs::temp_directory_path() / "volta_registry_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~BackendLoading() override { fs::remove_all(folder_); }

  std::string reason(DeviceType type = DeviceType::opencl) const {
    std::string why;
    const fs::path folders[] = {folder_ / "absent", folder_};
    EXPECT_EQ(load_backend(type, folders, &why), nullptr);
    return why;
  }

  fs::path folder_;
};

TEST_F(BackendLoading, MissingLibraryIsNotBuilt) {
  EXPECT_EQ(reason(DeviceType::opencl),
            "the OpenCL backend is not built or not installed (libvolta_opencl.so not found beside "
            "libvolta or in "
            "VOLTA_BACKEND_PATH)");
  EXPECT_EQ(reason(DeviceType::cuda),
            "the CUDA backend is not built or not installed (libvolta_cuda.so not found beside "
            "libvolta or in "
            "VOLTA_BACKEND_PATH)");
}

TEST_F(BackendLoading, UnloadableLibraryGivesTheLoadersReason) {
  std::ofstream(folder_ / "libvolta_opencl.so") << std::string(4096, 'x');
  const std::string why = reason();
  EXPECT_TRUE(why.starts_with("libvolta_opencl.so could not be loaded: ")) << why;
  EXPECT_NE(why.find("ELF header"), std::string::npos) << why;
}

TEST_F(BackendLoading, ForeignLibraryIsNoBackend) {
  const std::string self = platform::library_path_of(reinterpret_cast<const void*>(&load_backend));
  fs::create_symlink(self, folder_ / "libvolta_opencl.so");
  EXPECT_EQ(reason(), (folder_ / "libvolta_opencl.so").string() +
                          " is not a Volta backend: it has no symbol volta_create_backend");
}

TEST_F(BackendLoading, FoldersComeFromTheLibraryAndTheEnvironment) {
  const auto before = platform::environment("VOLTA_BACKEND_PATH");
  setenv("VOLTA_BACKEND_PATH", "/one::/two:", 1);
  const std::vector<fs::path> folders = backend_folders();
  unsetenv("VOLTA_BACKEND_PATH");
  EXPECT_EQ(backend_folders().size(), 2u);
  if (before) setenv("VOLTA_BACKEND_PATH", before->c_str(), 1);
  ASSERT_EQ(folders.size(), 4u);
  const std::string self = platform::library_path_of(reinterpret_cast<const void*>(&load_backend));
  EXPECT_EQ(folders[0], fs::path(self).parent_path());
  EXPECT_EQ(folders[2], "/one");
  EXPECT_EQ(folders[3], "/two");
}

// Backends refuse a core of another build, with a reason that names both stamps.
TEST_F(BackendLoading, AnotherBuildsStampIsRefused) {
  int built = 0;
  for (const DeviceType type : {DeviceType::cuda, DeviceType::opencl}) {
    const std::string file = platform::library_file_name("volta_" + std::string(family_name(type)));
    const fs::path path = backend_folders()[0] / file;
    if (!fs::exists(path)) continue;
    ++built;
    std::string why;
    void* library = platform::open_library(path.string(), &why);
    ASSERT_NE(library, nullptr) << why;
    const auto create = platform::library_function<CreateBackend>(library, kCreateBackendSymbol);
    ASSERT_NE(create, nullptr);
    const char* refusal = nullptr;
    EXPECT_EQ(create("0.0.0-other", &refusal), nullptr);
    ASSERT_NE(refusal, nullptr);
    EXPECT_NE(std::string(refusal).find("0.0.0-other"), std::string::npos) << refusal;
  }
  if (built == 0) GTEST_SKIP() << "no backend library is built";
}

TEST(Registry, EntriesAreStable) {
  DeviceEntry& entry = device_entry(Device::cpu());
  EXPECT_EQ(&entry, &device_entry(Device::cpu()));
  EXPECT_EQ(entry.device, Device::cpu());
  EXPECT_EQ(entry.index, 0);
  std::vector<DeviceEntry*> seen(4);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (DeviceEntry*& each : seen)
    threads.emplace_back([&each] { each = &device_entry(Device::cpu()); });
  for (auto& thread : threads) thread.join();
  for (const DeviceEntry* each : seen) EXPECT_EQ(each, &entry);
}

TEST(Registry, AbsentDevicesThrow) {
  const Device absent = DeviceAccess::make(DeviceType::cuda, 250);
  try {
    device_entry(absent);
    FAIL() << "no DeviceError";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.what(), why_unusable(DeviceType::cuda, 250));
    EXPECT_TRUE(std::string(error.what()).starts_with("cuda:250: ")) << error.what();
  }
  EXPECT_EQ(why_unusable(DeviceType::cpu, 0), "");
}

// The driver libraries that this process has mapped.
std::string mapped_drivers() {
  std::ifstream maps("/proc/self/maps");
  std::string line, found;
  while (std::getline(maps, line))
    // libOpenCL.so itself is only the loader, and Debian's oneDNN links it; drivers are the
    // libraries that it opens.
    for (const char* driver :
         {"libvolta_cuda", "libvolta_opencl", "libcuda.so", "libpocl", "libnvidia"})
      if (line.find(driver) != std::string::npos) found += line + "\n";
  return found;
}

TEST(RegistryDeathTest, UsingTheCpuTouchesNoDriver) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        DeviceEntry& entry = device_entry(Device::cpu());
        entry.pool.release(entry.pool.allocate(100));
        const std::string drivers = mapped_drivers();
        std::fputs(drivers.c_str(), stderr);
        std::_Exit(drivers.empty() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace volta
