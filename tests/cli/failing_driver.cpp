// An OpenCL driver that crashes or hangs when the loader asks for its functions.
#include <unistd.h>

#include <cstdlib>

extern "C" __attribute__((visibility("default"))) void* clGetExtensionFunctionAddress(const char*) {
#ifdef VOLTA_DRIVER_CRASH
  std::abort();
#else
  for (;;) ::pause();
#endif
}
