// Compiles missing kernels in parallel and loads them.
#include "backend/cuda/modules.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

#include "core/counting.h"
#include "kernel/parallel_compile.h"
#include "volta/log.h"

namespace volta::cuda {

Module::~Module() {
  const ContextScope scope(context_, std::nothrow);
  context_.driver().cuModuleUnload(module_);
}

Modules::Modules(const Context& context)
    : context_(context), compiler_(context.libraries(), context.compute_capability()) {}

std::vector<Modules::Loaded> Modules::load(const std::vector<kernel::KernelSource>& sources) {
  const std::lock_guard lock(mutex_);
  std::unordered_map<std::string_view, Loaded> found;
  std::vector<const kernel::KernelSource*> missing;
  for (const kernel::KernelSource& source : sources) {
    const auto [place, fresh] = found.try_emplace(source.text);
    if (!fresh) continue;
    place->second = loaded_.find(source.text);
    if (!place->second) missing.push_back(&source);
  }
  std::vector<Compiler::Binary> binaries(missing.size());
  kernel::compile_parallel(missing.size(),
                           [&](std::size_t i) { binaries[i] = compiler_.binary(*missing[i]); });
  for (std::size_t i = 0; i < missing.size(); ++i) {
    Loaded module = load(*missing[i], binaries[i]);
    volta::count(binaries[i].cached ? live_counters().kernels_loaded
                                    : live_counters().compilations);
    const std::uint64_t bytes = missing[i]->text.size() + binaries[i].bytes.size();
    found[missing[i]->text] = loaded_.insert(missing[i]->text, std::move(module), bytes);
  }
  std::vector<Loaded> modules;
  modules.reserve(sources.size());
  for (const kernel::KernelSource& source : sources) modules.push_back(found.at(source.text));
  return modules;
}

Modules::Loaded Modules::find(const std::shared_ptr<const kernel::Program>& program) const {
  const std::lock_guard lock(mutex_);
  return loaded_.find(program);
}

void Modules::note(const std::shared_ptr<const kernel::Program>& program, const Loaded& module) {
  const std::lock_guard lock(mutex_);
  loaded_.note(program, module);
}

CUfunction Modules::own_function(const kernel::KernelSource& source) {
  const std::lock_guard lock(mutex_);
  Loaded& own = own_[source.text];
  if (!own) {
    Compiler::Binary binary = compiler_.binary(source);
    own = load(source, binary);
  }
  return own->function();
}

std::size_t Modules::count() const {
  const std::lock_guard lock(mutex_);
  return loaded_.live() + own_.size();
}

std::uint64_t Modules::bytes() const {
  const std::lock_guard lock(mutex_);
  return loaded_.bytes();
}

void Modules::drop_unused() {
  const std::lock_guard lock(mutex_);
  loaded_.drop_unused();
}

Modules::Loaded Modules::load(const kernel::KernelSource& source, Compiler::Binary& binary) const {
  CUresult status = CUDA_SUCCESS;
  Loaded module = try_load(source, binary.bytes, status);
  if (!module && binary.cached && !context_.lost()) {
    log(LogLevel::info, fmt::format("{}: a cached kernel does not load ({}); compiling it again",
                                    context_.name(), describe(context_.driver(), status)));
    binary = compiler_.compiled(source);
    module = try_load(source, binary.bytes, status);
  }
  context_.check(status, "loading a kernel");
  return module;
}

Modules::Loaded Modules::try_load(const kernel::KernelSource& source, const std::string& binary,
                                  CUresult& status) const {
  const Driver& cu = context_.driver();
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  status = cu.cuModuleLoadData(&module, binary.data());
  if (status != CUDA_SUCCESS) return nullptr;
  status = cu.cuModuleGetFunction(&function, module, source.name.c_str());
  if (status != CUDA_SUCCESS) {
    cu.cuModuleUnload(module);
    return nullptr;
  }
  return std::make_shared<const Module>(context_, module, function);
}

}  // namespace volta::cuda
