// Compiling what is missing in parallel, and loading it.
#include "backend/cuda/modules.h"

#include <string_view>
#include <unordered_set>

#include "core/counting.h"
#include "kernel/parallel_compile.h"

namespace volta::cuda {
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
  kernel::compile_parallel(missing.size(),
                           [&](std::size_t i) { binaries[i] = compiler_.binary(*missing[i]); });
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
