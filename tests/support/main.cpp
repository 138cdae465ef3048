// The test program: GoogleTest's main with --device.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "test_device.h"
#include "volta/error.h"

namespace {
std::string device_name = "cpu";
}

// Parsed when a test first asks: a test that needs no device loads no driver.
volta::Device test_device() {
  static const volta::Device device = [] {
    try {
      return volta::Device::parse(device_name);
    } catch (const volta::Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::exit(2);
    }
  }();
  return device;
}

int main(int argc, char** argv) {
  // Tests count kernels: those that ask for it apart, none times schedules.
  setenv("VOLTA_TUNE", "0", 0);
  testing::InitGoogleTest(&argc, argv);
  if (const char* name = std::getenv("VOLTA_TEST_DEVICE")) device_name = name;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--device=", 9) == 0) device_name = argv[i] + 9;
  }
  std::printf("device: %s\n", device_name.c_str());
  return RUN_ALL_TESTS();
}
