// The CUDA backend as the core opens it, for tests through backend.h alone.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/backend_loader.h"

namespace volta::testing {

using Kind = plan::BufferRef::Kind;

constexpr plan::BufferRef leaf(std::uint32_t index) { return {Kind::Leaf, index, 0}; }
constexpr plan::BufferRef output(std::uint32_t index) { return {Kind::Output, index, 0}; }
constexpr plan::BufferRef temp(std::uint64_t offset) { return {Kind::Temp, 0, offset}; }

struct Loaded {
  Backend* backend = nullptr;  // kept until the process ends, as the core keeps backends
  std::string why;
};

inline const Loaded& loaded() {
  static const Loaded result = [] {
    Loaded loaded;
    const auto folders = backend_folders();
    loaded.backend = load_backend(DeviceType::cuda, folders, &loaded.why);
    return loaded;
  }();
  return result;
}

// Device memory for one test, released at its end.
class Memory {
 public:
  explicit Memory(Backend& backend) : backend_(backend) {}
  ~Memory() {
    for (const Address address : taken_) backend_.release(0, address);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Address take(std::size_t bytes) {
    taken_.push_back(backend_.allocate(0, std::max<std::size_t>(bytes, 1)));
    EXPECT_NE(taken_.back().base, nullptr);
    return taken_.back();
  }
  template <class T>
  Address put(const std::vector<T>& values) {
    const Address address = take(values.size() * sizeof(T));
    backend_.upload(0, address, values.data(), values.size() * sizeof(T));
    return address;
  }
  template <class T>
  std::vector<T> get(Address address, std::size_t count) {
    std::vector<T> values(count);
    backend_.download(0, values.data(), address, count * sizeof(T));
    return values;
  }

 private:
  Backend& backend_;
  std::vector<Address> taken_;
};

class CudaBackend : public ::testing::Test {
 protected:
  void SetUp() override {
    if (loaded().backend == nullptr) GTEST_SKIP() << "no CUDA device: " << loaded().why;
    memory_ = std::make_unique<Memory>(backend());
  }
  static Backend& backend() { return *loaded().backend; }
  Memory& memory() { return *memory_; }

 private:
  std::unique_ptr<Memory> memory_;
};

}  // namespace volta::testing
