// The CPU backend: host memory, and plans as flat lists of prepared launches.
#include "backend/cpu_backend.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <utility>

#include "backend/common/program_table.h"
#include "backend/cpu/executor/cpu_executable.h"
#include "backend/cpu/library/conv.h"
#include "backend/cpu/library/libraries.h"
#include "backend/cpu/library/matmul.h"
#include "backend/cpu/library/onednn_memory.h"
#include "core/counting.h"
#include "platform/fork.h"
#include "platform/memory.h"

namespace volta {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kLargePage = 2 << 20;

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "CPU";
}

class CpuBackend final : public Backend, private cpu::ProgramSource {
 public:
  int device_count() const override { return 1; }
  std::string device_name(int) const override { return processor_name(); }
  bool device_is_gpu(int) const override { return false; }
  std::uint64_t device_memory(int) const override { return platform::physical_memory(); }
  bool supports(int, DType) const override { return true; }
  // A library call costs one or two microseconds, a sum in a kernel about a nanosecond per
  // multiplication.
  std::int64_t small_product(int) const override { return 256; }
  bool multiplies_halves(int, DType dtype) const override { return cpu::onednn_multiplies(dtype); }
  CallSupport takes(int, const plan::Step& step) override {
    if (const auto* product = std::get_if<plan::MatmulStep>(&step))
      return {.taken = cpu::fuses_epilogue(*product)};
    const auto* conv = std::get_if<plan::ConvStep>(&step);
    return {.taken = conv != nullptr && cpu::takes_conv(*conv)};
  }

  std::optional<std::uint64_t> free_memory(int) override { return platform::available_memory(); }
  std::vector<LibraryInfo> libraries() const override {
    return {cpu::onednn_library(), cpu::vector_library(), cpu::thread_library()};
  }

  Address allocate(int, std::size_t bytes) override {
    // The system would grant more memory than there is and kill the process later.
    if (bytes > device_memory(0)) return {};
    const bool large = bytes >= kLargePage;
    void* memory = nullptr;
    if (posix_memalign(&memory, large ? kLargePage : kAlignment, bytes) != 0) return {};
#ifdef MADV_HUGEPAGE
    // In small pages, large buffers are bound by address translation. This is only advice and may
    // fail.
    if (large) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return {memory, 0};
  }
  void release(int, Address memory) override { std::free(memory.base); }

  void upload(int, Address destination, const void* source, std::size_t bytes) override {
    std::memcpy(destination.pointer(), source, bytes);
  }
  void download(int, void* destination, Address source, std::size_t bytes) override {
    std::memcpy(destination, source.pointer(), bytes);
  }
  void copy(int, Address destination, Address source, std::size_t bytes) override {
    std::memmove(destination.pointer(), source.pointer(), bytes);
  }

  std::unique_ptr<Executable> prepare(int, const plan::PlanSteps& steps) override {
    return cpu::make_executable(steps, *this);
  }

  std::size_t program_count(int) const override {
    const std::lock_guard lock(mutex_);
    return programs_.live();
  }
  SharedBytes shared_bytes(int) const override {
    const std::lock_guard lock(mutex_);
    return {.kernels = programs_.bytes(), .libraries = cpu::onednn_bytes()};
  }
  void drop_unused(int) override {
    const std::lock_guard lock(mutex_);
    programs_.drop_unused();
    cpu::drop_unused_primitives();
  }

  void synchronize(int) override {}

 private:
  // Returns the prepared program; programs with the same canonical text are prepared once.
  std::shared_ptr<const cpu::BlockProgram> compiled(
      const std::shared_ptr<const kernel::Program>& program) override {
    const std::lock_guard lock(mutex_);
    if (auto known = programs_.find(program)) return known;
    const std::string text = kernel::to_text(*program);
    auto result = programs_.find(text);
    if (!result) {
      kernel::validate(*program);
      count(live_counters().compilations);
      auto prepared = std::make_shared<const cpu::BlockProgram>(cpu::compile(*program));
      const std::uint64_t bytes = cpu::host_bytes(*prepared);
      result = programs_.insert(text, std::move(prepared), bytes);
    }
    programs_.note(program, result);
    return result;
  }

  mutable platform::ForkMutex mutex_;
  ProgramTable<const cpu::BlockProgram> programs_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace volta
