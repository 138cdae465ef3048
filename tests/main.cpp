// The test program: GoogleTest's main with --device.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "test_device.h"
#include "volta/error.h"

namespace {
volta::Device chosen_device;
}

volta::Device test_device() { return chosen_device; }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string name = std::getenv("VOLTA_TEST_DEVICE") ? std::getenv("VOLTA_TEST_DEVICE") : "cpu";
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--device=", 9) == 0) name = argv[i] + 9;
  }
  try {
    chosen_device = volta::Device::parse(name);
  } catch (const volta::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  std::printf("device: %s\n", volta::to_string(chosen_device).c_str());
  return RUN_ALL_TESTS();
}
