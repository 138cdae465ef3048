// Compiling what is missing in parallel, and loading it.
#include "backend/cuda/modules.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string_view>
#include <thread>
#include <unordered_set>

#include "core/counting.h"

namespace volta::cuda {
namespace {

constexpr std::size_t kMaxThreads = 16;

// Fills binaries[i] from sources[i].
void compile_all(const Compiler& compiler, const std::vector<const kernel::KernelSource*>& sources,
                 std::vector<Compiler::Binary>& binaries) {
  std::atomic<std::size_t> next{0};
  std::vector<std::exception_ptr> failures(sources.size());
  const auto work = [&] {
    for (std::size_t i = next++; i < sources.size(); i = next++) {
      try {
        binaries[i] = compiler.binary(*sources[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    for (std::size_t n = 1; n < std::min({cores, kMaxThreads, sources.size()}); ++n) {
      threads.emplace_back(work);
    }
    work();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

Modules::Modules(const Context& context)
    : context_(context), compiler_(context.libraries(), context.compute_capability()) {}

Modules::~Modules() {
  const ContextScope scope(context_, std::nothrow);
  for (const auto& [source, loaded] : loaded_) context_.driver().cuModuleUnload(loaded.module);
}

std::vector<CUfunction> Modules::functions(const std::vector<kernel::KernelSource>& sources) {
  const std::lock_guard lock(mutex_);
  std::vector<const kernel::KernelSource*> missing;
  std::unordered_set<std::string_view> seen;
  for (const kernel::KernelSource& source : sources) {
    if (!loaded_.contains(source.text) && seen.insert(source.text).second)
      missing.push_back(&source);
  }
  std::vector<Compiler::Binary> binaries(missing.size());
  compile_all(compiler_, missing, binaries);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    count(binaries[i].cached ? live_counters().kernels_loaded : live_counters().compilations);
    loaded_.emplace(missing[i]->text, load(*missing[i], binaries[i].bytes));
  }
  std::vector<CUfunction> functions;
  functions.reserve(sources.size());
  for (const kernel::KernelSource& source : sources) {
    functions.push_back(loaded_.at(source.text).function);
  }
  return functions;
}

CUfunction Modules::own_function(const kernel::KernelSource& source) {
  const std::lock_guard lock(mutex_);
  const auto found = loaded_.find(source.text);
  if (found != loaded_.end()) return found->second.function;
  const Loaded loaded = load(source, compiler_.binary(source).bytes);
  loaded_.emplace(source.text, loaded);
  return loaded.function;
}

Modules::Loaded Modules::load(const kernel::KernelSource& source, const std::string& binary) const {
  const Driver& cu = context_.driver();
  Loaded loaded;
  context_.check(cu.cuModuleLoadData(&loaded.module, binary.data()), "loading a kernel");
  const CUresult status =
      cu.cuModuleGetFunction(&loaded.function, loaded.module, source.name.c_str());
  if (status != CUDA_SUCCESS) {
    cu.cuModuleUnload(loaded.module);
    context_.check(status, "finding a kernel in its module");
  }
  return loaded;
}

}  // namespace volta::cuda
