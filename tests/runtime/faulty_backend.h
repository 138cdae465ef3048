// A backend in front of a real one that counts every call of Backend and Executable and lets one of
// them fail. It must be installed before the family is first named, in a separate process
// (child.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/backend.h"
#include "backend/backend_loader.h"
#include "backend/registry.h"
#include "backend/steps.h"
#include "volta/error.h"

namespace volta::testing_faults {

// The requested failure and its effect. In these tests one thread makes the calls, under the
// device's lock.
struct Faults {
  long calls = 0;                  // since arm() or count()
  long failing = 0;                // the number of the failing call; 0 for none
  bool no_memory = false;          // for allocations: they return nothing instead of throwing
  std::string only;                // the only call that counts; empty for all
  bool after_run = false;          // for runs: fails after the steps were issued
  std::string failed;              // the call that failed
  std::vector<std::string> names;  // names of all calls, if requested
  bool keeps_names = false;
  int unprepared = 0;              // number of preparations from now on that find no memory
  std::vector<bool> preparations;  // whether each was for low memory

  void count() { *this = {}; }
  void arm(long call) {
    *this = {};
    failing = call;
  }
};
inline Faults& faults() {
  static Faults state;
  return state;
}

// Memory that was allocated from all backends and not released.
struct Taken {
  std::map<void*, std::size_t> bytes;  // by address
  std::size_t now = 0, most = 0;

  void add(const Address& memory, std::size_t size) {
    if (memory.base == nullptr) return;
    bytes[memory.base] = size;
    now += size;
    most = std::max(most, now);
  }
  void remove(const Address& memory) {
    const auto found = bytes.find(memory.base);
    if (found == bytes.end()) return;
    now -= found->second;
    bytes.erase(found);
  }
};
inline Taken& taken() {
  static Taken state;
  return state;
}

inline bool fails_now(const char* call) {
  Faults& f = faults();
  if (!f.only.empty() && f.only != call) return false;
  ++f.calls;
  if (f.keeps_names) f.names.emplace_back(call);
  if (f.calls != f.failing) return false;
  f.failed = call;
  return true;
}

class FaultyExecutable final : public Executable {
 public:
  FaultyExecutable(std::string device, std::unique_ptr<Executable> real)
      : device_(std::move(device)), real_(std::move(real)) {
    under_way = real_->under_way;
    held = real_->held;
  }

  void run(std::span<const Address> leaves, std::span<const Address> outputs, Address arena,
           std::span<const std::uint64_t> args) override {
    const bool fails = !faults().no_memory && fails_now("run");
    if (fails && !faults().after_run) fail("run");
    real_->issued = 0;
    real_->run(leaves, outputs, arena, args);
    issued = real_->issued;
    held = real_->held;
    if (fails) fail("run");
  }
  std::optional<kernel::ErrorRecord> take_error() override {
    if (fails_here("take_error")) fail("take_error");
    return real_->take_error();
  }

 private:
  static bool fails_here(const char* call) {
    return !faults().no_memory && !faults().after_run && fails_now(call);
  }
  [[noreturn]] void fail(const char* call) const {
    throw BackendError(fmt::format("{}: {} failed: injected", device_, call));
  }

  const std::string device_;
  const std::unique_ptr<Executable> real_;
};

class FaultyBackend final : public Backend {
 public:
  FaultyBackend(DeviceType type, Backend* real) : type_(type), real_(*real) {}

  int device_count() const override { return real_.device_count(); }  // before any device is used
  std::string device_name(int d) const override { return at("device_name", d).device_name(d); }
  bool device_is_gpu(int d) const override { return at("device_is_gpu", d).device_is_gpu(d); }
  std::uint64_t device_memory(int d) const override {
    return at("device_memory", d).device_memory(d);
  }
  bool supports(int d, DType dtype) const override { return at("supports", d).supports(d, dtype); }
  bool multiplies_halves(int d, DType dtype) const override {
    return at("multiplies_halves", d).multiplies_halves(d, dtype);
  }
  std::int64_t small_product(int d) const override {
    return at("small_product", d).small_product(d);
  }
  CallSupport takes(int d, const plan::Step& step) override {
    return at("takes", d).takes(d, step);
  }
  std::string fingerprint(int d) const override { return at("fingerprint", d).fingerprint(d); }
  std::vector<std::string> call_forms(int d, const plan::Step& step) const override {
    return at("call_forms", d).call_forms(d, step);
  }
  DeviceFigures figures(int d) const override { return at("figures", d).figures(d); }
  std::optional<std::uint64_t> free_memory(int d) override {
    return at("free_memory", d).free_memory(d);
  }
  void flush_profile(int d) override { at("flush_profile", d).flush_profile(d); }
  bool shows_ranges() const override { return at("shows_ranges", 0).shows_ranges(); }
  void begin_range(const char* name) override { at("begin_range", 0).begin_range(name); }
  void end_range() override { real_.end_range(); }  // called by a destructor
  std::vector<LibraryInfo> libraries() const override { return at("libraries", 0).libraries(); }

  Address allocate(int d, std::size_t bytes) override {
    if (faults().no_memory && fails_now("allocate")) return {};
    const Address memory = (faults().no_memory ? real_ : at("allocate", d)).allocate(d, bytes);
    taken().add(memory, bytes);
    return memory;
  }
  void release(int d, Address memory) override {
    const bool fails = fails_here("release");
    taken().remove(memory);
    real_.release(d, memory);  // a driver that refuses does not keep using the memory
    if (fails) fail("release", d);
  }
  void upload(int d, Address destination, const void* source, std::size_t bytes) override {
    at("upload", d).upload(d, destination, source, bytes);
  }
  void download(int d, void* destination, Address source, std::size_t bytes) override {
    at("download", d).download(d, destination, source, bytes);
  }
  void copy(int d, Address destination, Address source, std::size_t bytes) override {
    at("copy", d).copy(d, destination, source, bytes);
  }
  bool has_streams(int d) const override { return real_.has_streams(d); }  // as device_count
  std::shared_ptr<const StreamEvent> record_event(int d, Stream stream) override {
    return at("record_event", d).record_event(d, stream);
  }
  void wait_for_event(int d, Stream stream, const StreamEvent& event) override {
    at("wait_for_event", d).wait_for_event(d, stream, event);
  }
  void upload_in_copy_stream(int d, Address destination, const void* source,
                             std::size_t bytes) override {
    at("upload_in_copy_stream", d).upload_in_copy_stream(d, destination, source, bytes);
  }
  void download_in_copy_stream(int d, void* destination, Address source,
                               std::size_t bytes) override {
    at("download_in_copy_stream", d).download_in_copy_stream(d, destination, source, bytes);
  }
  bool take_sent(int d, void* destination, Address source, std::size_t bytes) override {
    return at("take_sent", d).take_sent(d, destination, source, bytes);
  }
  void begin_download(int d, void* destination, Address source, std::size_t bytes) override {
    at("begin_download", d).begin_download(d, destination, source, bytes);
  }
  void* allocate_pinned(int d, std::size_t bytes) override {
    return at("allocate_pinned", d).allocate_pinned(d, bytes);
  }
  void release_pinned(int d, void* memory) noexcept override { real_.release_pinned(d, memory); }
  std::unique_ptr<Executable> prepare(int d, const plan::PlanSteps& steps) override {
    faults().preparations.push_back(steps.low_memory);
    if (faults().unprepared > 0) {
      --faults().unprepared;
      throw OutOfMemory(name(d) + ": no memory of its own: injected");
    }
    return std::make_unique<FaultyExecutable>(name(d), at("prepare", d).prepare(d, steps));
  }
  std::size_t program_count(int d) const override {
    return at("program_count", d).program_count(d);
  }
  SharedBytes shared_bytes(int d) const override { return real_.shared_bytes(d); }
  void drop_unused(int d) override { real_.drop_unused(d); }
  void synchronize(int d) override { at("synchronize", d).synchronize(d); }

 private:
  static bool fails_here(const char* call) {
    return !faults().no_memory && !faults().after_run && fails_now(call);
  }
  std::string name(int d) const { return to_string(DeviceAccess::make(type_, d)); }
  [[noreturn]] void fail(const char* call, int d) const {
    throw BackendError(fmt::format("{}: {} failed: injected", name(d), call));
  }
  // The real backend, unless this call is the failing one.
  Backend& at(const char* call, int d) const {
    if (fails_here(call)) fail(call, d);
    return real_;
  }

  const DeviceType type_;
  Backend& real_;
};

// Installs the wrapper in front of every backend that is loaded from now on.
inline void put_faulty_backends_in_place() {
  wrap_backends(
      [](DeviceType type, Backend* real) -> Backend* { return new FaultyBackend(type, real); });
}

}  // namespace volta::testing_faults
