// Missing or unusable parts are explained, and everything else continues to work: no drivers, a
// backend of another build, unusable kernel caches, kernels that do not compile. Each case runs in
// its own process, because devices are probed once: the test starts its own program again with
// another environment.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "backend/backend_loader.h"
#include "backend/registry.h"
#include "core/build_stamp.h"
#include "platform/library.h"
#include "support/child.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace fs = std::filesystem;
using namespace testing_child;  // NOLINT: the test is about processes

// No OpenCL vendor (and none that a loader finds elsewhere) and no CUDA device.
const Environment kNothing{{"OCL_ICD_VENDORS", "/nonexistent-vendors"},
                           {"OPENCL_VENDOR_PATH", "/nonexistent-vendors"},
                           {"OCL_ICD_FILENAMES", ""},
                           {"VOLTA_OPENCL_DEVICE", "absent on purpose"},
                           {"CUDA_VISIBLE_DEVICES", ""}};

std::vector<std::pair<LogLevel, std::string>> heard;
void listen() {
  set_log_level(LogLevel::info);
  set_log_handler([](LogLevel level, std::string_view text) { heard.emplace_back(level, text); });
}

template <class Act>
std::string reason(Act act) {
  try {
    act();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "(no DeviceError)";
}

// ---- Absent devices.

TEST(Absence, DevicesSayWhy) {
  in_child(kNothing, [] {
    const std::string cuda = reason([] { Device::cuda(); }),
                      opencl = reason([] { Device::opencl(); });
    EXPECT_EQ(cuda, "cuda:0: " + why_absent(DeviceType::cuda));
    EXPECT_EQ(opencl, "opencl:0: " + why_absent(DeviceType::opencl));
    EXPECT_FALSE(why_absent(DeviceType::cuda).empty());
    EXPECT_FALSE(why_absent(DeviceType::opencl).empty());
    std::printf("%s\n%s\n", cuda.c_str(), opencl.c_str());
    EXPECT_FALSE(Device::gpu().has_value());
    EXPECT_FALSE(is_gpu_available());
    EXPECT_EQ(devices(), std::vector<Device>{Device::cpu()});
    EXPECT_EQ(reason([] { ones({2}).to(Device::parse("opencl:1")); }),
              "opencl:1: " + why_absent(DeviceType::opencl));
  });
}

TEST(Absence, BestFallsBackWithOneMessage) {
  in_child(kNothing, [] {
    listen();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Device::best(), Device::cpu());
    EXPECT_EQ(Device::parse("best"), Device::cpu());
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_EQ(heard[0].first, LogLevel::info);
    EXPECT_EQ(heard[0].second,
              "device best: no GPU found, using the CPU (CUDA: " + why_absent(DeviceType::cuda) +
                  "; OpenCL: " + why_absent(DeviceType::opencl) + ")");
  });
}

TEST(Absence, ParseGpuFallsBackWithOneWarning) {
  in_child(kNothing, [] {
    listen();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Device::parse("gpu"), Device::cpu());
    ASSERT_EQ(heard.size(), 1u);
    EXPECT_EQ(heard[0].first, LogLevel::warning);
    EXPECT_TRUE(heard[0].second.starts_with("device gpu: no GPU found, using the CPU (CUDA: "))
        << heard[0].second;
  });
}

TEST(Absence, FallbackIsAskedForByName) {
  Environment environment = kNothing;
  environment["VOLTA_FALLBACK"] = "cpu";
  in_child(environment, [] {
    listen();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(Device::cuda(), Device::cpu());
      EXPECT_EQ(Device::opencl(), Device::cpu());
    }
    ASSERT_EQ(heard.size(), 2u);
    EXPECT_EQ(heard[0].second,
              "cuda:0: " + why_absent(DeviceType::cuda) + "; using the CPU (VOLTA_FALLBACK=cpu)");
    EXPECT_EQ(heard[1].second, "opencl:0: " + why_absent(DeviceType::opencl) +
                                   "; using the CPU (VOLTA_FALLBACK=cpu)");
    // A program written for a GPU runs, too.
    EXPECT_EQ((ones({3}, {.device = Device::cuda()}) * 2).sum().item(), 6);
  });
}

TEST(Absence, AnotherWordIsNoPermissionToFallBack) {
  Environment environment = kNothing;
  environment["VOLTA_FALLBACK"] = "yes";
  in_child(environment, [] { EXPECT_THROW(Device::cuda(), DeviceError); });
}

TEST(Absence, TrainingOnTheCpuNeedsNoDriver) {
  in_child(kNothing, [] {
    nn::Linear layer(2, 1);
    optim::SGD optimizer(layer.parameters(), {.lr = 0.1});
    const Tensor x = tensor({0, 1, 1, 0}, {2, 2});
    double first = 0, last = 0;
    for (int i = 0; i < 20; ++i) {
      optimizer.zero_grad();
      const Tensor loss = layer(x).square().mean();
      loss.backward();
      optimizer.step();
      (i == 0 ? first : last) = loss.item();
    }
    EXPECT_LT(last, first);
  });
}

// ---- A backend library that does not belong to this build.

TEST(Absence, ABackendOfAnotherBuildIsRefused) {
  const Folder folder;
  const std::string file = platform::library_file_name("volta_opencl");
  const fs::path built = backend_folders()[0] / file;
  if (!fs::exists(built)) GTEST_SKIP() << "the OpenCL backend is not built";
  // The stamp is text in the library, so a copy with one character changed belongs to another
  // build.
  std::ifstream in(built, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const std::string stamp = kBuildStamp;
  ASSERT_GE(stamp.size(), 8u);
  int changed = 0;
  for (std::size_t at = bytes.find(stamp); at != std::string::npos;
       at = bytes.find(stamp, at + 1)) {
    bytes[at + stamp.size() - 1] = bytes[at + stamp.size() - 1] == 'x' ? 'y' : 'x';
    ++changed;
  }
  ASSERT_GT(changed, 0) << "no stamp " << stamp << " in " << built;
  std::ofstream(folder.path() / file, std::ios::binary) << bytes;
  std::string why;
  const fs::path folders[] = {folder.path()};
  EXPECT_EQ(load_backend(DeviceType::opencl, folders, &why), nullptr);
  EXPECT_NE(why.find(stamp), std::string::npos) << why;
}

// ---- Kernel caches.

// A few steps of training on OpenCL; the loss must fall.
void train_on_opencl() {
  const Device device = Device::opencl();
  manual_seed(1);
  nn::Sequential model({{"a", nn::Linear(2, 8)}, {"t", nn::Tanh()}, {"b", nn::Linear(8, 1)}});
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 0.05});
  const Tensor x = tensor({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}, {.device = device});
  const Tensor y = tensor({0, 1, 1, 0}, {4, 1}, {.device = device});
  double first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    last = loss.item();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, 0.8 * first);
}

bool opencl_here() { return device_count(DeviceType::opencl) > 0; }

int warnings_about_the_cache() {
  int count = 0;
  for (const auto& [level, text] : heard)
    count += level == LogLevel::warning && text.starts_with("kernel cache: ");
  return count;
}

TEST(Absence, AMissingCacheFolderIsMade) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  const Folder folder;
  in_child({{"VOLTA_CACHE_DIR", folder / "not/yet/here"}}, [] {
    listen();
    train_on_opencl();
    EXPECT_EQ(warnings_about_the_cache(), 0);
    EXPECT_FALSE(fs::is_empty(std::getenv("VOLTA_CACHE_DIR")));
  });
}

TEST(Absence, AnUnusableCacheFolderIsOneWarning) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  // A folder below a file can be neither created nor written, even by root.
  const Folder folder;
  std::ofstream(folder.path() / "file") << "x";
  in_child({{"VOLTA_CACHE_DIR", folder / "file/below"}}, [] {
    listen();
    train_on_opencl();
    EXPECT_EQ(warnings_about_the_cache(), 1);
  });
}

TEST(Absence, AReadOnlyCacheStillTrains) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  const Folder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  in_child({{"VOLTA_CACHE_DIR", folder.path().string()}}, [] {
    listen();
    train_on_opencl();
    EXPECT_EQ(warnings_about_the_cache(), geteuid() == 0 ? 0 : 1);  // root can write everywhere
  });
}

TEST(Absence, CorruptCacheEntriesAreCompiledAgain) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  const Folder folder;
  const Environment cache{{"VOLTA_CACHE_DIR", folder.path().string()}};
  const auto trains_and_compiles = [] {
    train_on_opencl();
    EXPECT_GT(counters().compilations, 0u);
    EXPECT_EQ(counters().kernels_loaded, 0u);
  };
  in_child(cache, trains_and_compiles);
  if (is_child()) return;
  // Entries are truncated, overwritten or emptied.
  int entries = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".bin") continue;
    switch (entries++ % 3) {
      case 0:
        fs::resize_file(entry.path(), fs::file_size(entry.path()) / 2);
        break;
      case 1:
        fs::resize_file(entry.path(), 0);
        break;
      default: {
        std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(-1, std::ios::end);
        file.put('\x7f').put('\x7f');
      }
    }
  }
  EXPECT_GT(entries, 2);
  in_child(cache, trains_and_compiles);
}

// ---- A kernel that does not compile.

TEST(Absence, AKernelThatDoesNotCompileLeavesTheParameters) {
  if (!opencl_here()) GTEST_SKIP() << "no OpenCL device";
  const Folder folder;
  in_child(
      {{"VOLTA_OPENCL_OPTIONS", "-cl-no-such-option"}, {"VOLTA_CACHE_DIR", folder.path().string()}},
      [] {
        const Device device = Device::opencl();
        Tensor weight = tensor({1, 2, 3}, {3}, {.device = device, .requires_grad = true});
        optim::SGD optimizer({weight}, {.lr = 0.5});
        try {
          (weight * weight).sum().backward();
          optimizer.step();
          synchronize(device);
          ADD_FAILURE() << "the kernel compiled";
        } catch (const BackendError& error) {
          const std::string message = error.what();
          EXPECT_TRUE(message.starts_with("opencl: compiling kernel '")) << message;
          EXPECT_NE(message.find(device.name()), std::string::npos) << message;
        }
        EXPECT_EQ(weight.to_vector<float>(), (std::vector<float>{1, 2, 3}));
        // Operations without kernels still work.
        EXPECT_EQ(weight.detach().to(Device::cpu()).sum().item(), 6);
      });
}

}  // namespace
}  // namespace volta
