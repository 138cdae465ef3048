// Opens libvolta where the loader has little memory left for thread-local variables at fixed
// places: another library that takes nearly all of it was opened before.
//   volta_static_tls EATER LIBVOLTA
#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace fs = std::filesystem;

int main(int count, char** arguments) {
  if (count != 3) return 2;
  // The loader treats a copy with another name as another library.
  std::string folder = (fs::temp_directory_path() / "volta_tls_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  std::vector<void*> eaters;
  for (int i = 0; i < 1000; ++i) {
    const fs::path copy = fs::path(folder) / ("eater" + std::to_string(i) + ".so");
    fs::copy_file(arguments[1], copy);
    void* eater = dlopen(copy.c_str(), RTLD_NOW);
    if (eater == nullptr) break;  // no memory is left
    eaters.push_back(eater);
  }
  fs::remove_all(folder);
  // Each library takes 64 bytes. The rest is what libvolta may need: at most 512 bytes for itself,
  // and 136 for the OpenMP runtime, which Volta does not control.
  constexpr std::size_t kLeft = 11;
  if (eaters.size() <= kLeft || eaters.size() == 1000) {
    std::printf("skipped: %zu libraries were opened\n", eaters.size());
    return 77;
  }
  for (std::size_t i = 0; i < kLeft; ++i) {
    dlclose(eaters.back());
    eaters.pop_back();
  }
  if (dlopen(arguments[2], RTLD_NOW) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  std::printf("opened after %zu libraries of 64 bytes\n", eaters.size());
  return 0;
}
