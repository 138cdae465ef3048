// The OpenCL backend as the core opens it, for tests through backend.h alone.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "core/build_stamp.h"
#include "kernel/kernel_reference.h"
#include "kernel/kernel_samples.h"
#include "support/paths.h"

namespace volta::testing {

using Ref = plan::BufferRef;

// Sets an environment variable for a scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (old_.empty()) {
      unsetenv(name_);
    } else {
      setenv(name_, old_.c_str(), 1);
    }
  }

 private:
  const char* name_;
  std::string old_;
};

// $VOLTA_BACKEND_PATH, otherwise the build's folder.
inline std::filesystem::path module_path() {
  const char* file = "libvolta_opencl.so";
  const char* folder = std::getenv("VOLTA_BACKEND_PATH");
  if (folder && std::filesystem::exists(std::filesystem::path(folder) / file)) {
    return std::filesystem::path(folder) / file;
  }
  return std::filesystem::path(paths::library_dir()) / file;
}

inline CreateBackend entry_point() {
  static const CreateBackend create = [] {
    void* library = dlopen(module_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    return reinterpret_cast<CreateBackend>(dlsym(library, kCreateBackendSymbol));
  }();
  return create;
}

// Null, with the reason in *why, if the backend was not built or there is no OpenCL device.
inline std::unique_ptr<Backend> create_backend(const char** why) {
  if (!std::filesystem::exists(module_path())) {
    *why = "the OpenCL backend is not part of this build";
    return nullptr;
  }
  return std::unique_ptr<Backend>(entry_point()(kBuildStamp, why));
}

// A chunk of device memory divided into buffers, as in the pool.
class Chunk {
 public:
  Chunk(Backend& backend, std::size_t bytes)
      : backend_(backend), memory_(backend.allocate(0, bytes)), size_(bytes) {
    EXPECT_NE(memory_.base, nullptr);
  }
  ~Chunk() { backend_.release(0, memory_); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  Address take(std::size_t bytes) {
    const Address address{memory_.base, memory_.offset + used_};
    used_ += (bytes + 255) / 256 * 256;
    EXPECT_LE(used_, size_);
    return address;
  }
  Address put(const Bytes& bytes) {
    const Address address = take(bytes.size());
    backend_.upload(0, address, bytes.data(), bytes.size());
    return address;
  }

 private:
  Backend& backend_;
  Address memory_;
  std::size_t size_;
  std::size_t used_ = 256;  // an offset that is not zero
};

inline Bytes fetch(Backend& backend, Address address, std::size_t bytes) {
  Bytes result(bytes);
  backend.download(0, result.data(), address, bytes);
  return result;
}

// y[i] = x[i] + constant + argument
inline kernel::Program add_program(double constant, bool horizontal = false) {
  ProgramBuilder b;
  const int i = b.axis(b.param());
  const int x = b.slot(DType::f32), y = b.slot(DType::f32);
  const auto here = ProgramBuilder::at({{i, ProgramBuilder::one()}});
  const int sum = b.op(kernel::ScalarOp::add, b.load(x, here), b.constant(DType::f32, constant));
  b.store(y, here, b.op(kernel::ScalarOp::add, sum, b.arg(DType::f32)));
  return b.finish(map_schedule(1, horizontal));
}

inline plan::PlanSteps one_step(plan::Step step, std::uint32_t arg_words) {
  plan::PlanSteps steps;
  steps.steps.push_back(std::move(step));
  steps.arg_words = arg_words;
  return steps;
}

inline plan::KernelStep kernel_step(const kernel::Program& program,
                                    std::vector<plan::Binding> segments, std::string label) {
  return {.program = std::make_shared<kernel::Program>(program),
          .segments = std::move(segments),
          .label = std::move(label)};
}

// The backend that the tests share, or null as above.
inline Backend* shared_backend(const char** why) {
  static const char* reason = "";
  // Never destroyed, as in the core: the driver may be unloaded first at exit.
  static Backend* const backend = [] {
    // Tests do not use the user's kernel cache.
    const auto folder = std::filesystem::temp_directory_path() / "volta-test-cache";
    setenv("VOLTA_CACHE_DIR", folder.c_str(), 0);
    return create_backend(&reason).release();
  }();
  *why = reason;
  return backend;
}

class OpenClBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* why = nullptr;
    backend_ = shared_backend(&why);
    if (!backend_) GTEST_SKIP() << why;
  }
  Backend& backend() { return *backend_; }

 private:
  Backend* backend_ = nullptr;
};

}  // namespace volta::testing
