// A library in front of the C library (LD_PRELOAD). It counts the calls that change files in a
// folder. At the chosen call the process is killed, for a write after half of its bytes, or the
// disk is full.
//   VOLTA_SHIM_FOLDER  the folder
//   VOLTA_SHIM_AT      the number of the call, from 1 on; 0 for none
//   VOLTA_SHIM_ACT     "kill" or "full"
//   VOLTA_SHIM_LOG     a file that gets a line for every call: its name and the file's
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const std::string& folder() {
  static const std::string* const text = new std::string(variable("VOLTA_SHIM_FOLDER"));
  return *text;
}

void log_call(const char* call, std::string_view path) {
  static const std::string* const file = new std::string(variable("VOLTA_SHIM_LOG"));
  if (file->empty()) return;
  const int descriptor = real<int(const char*, int, ...)>("open")(
      file->c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string line = std::string(call) + " " + std::string(path) + "\n";
  if (real<ssize_t(int, const void*, std::size_t)>("write")(descriptor, line.data(), line.size()) <
      0)
    std::abort();
  ::close(descriptor);
}

enum class Act { none, kill, full };

// Counts a call that changes the file, and returns what should happen instead of it.
Act act_at(const char* call, std::string_view path) {
  static std::atomic<long> count{0};
  static const long at = std::atol(variable("VOLTA_SHIM_AT").c_str());
  static const bool full = variable("VOLTA_SHIM_ACT") == "full";
  if (folder().empty() || !path.starts_with(folder())) return Act::none;
  log_call(call, path);
  if (++count != at) return Act::none;
  return full ? Act::full : Act::kill;
}

[[noreturn]] void end() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

// Returns false if the call should fail for lack of space, which only happens for calls that need
// some.
bool goes_on(const char* call, const char* path) {
  const Act act = act_at(call, path == nullptr ? "" : path);
  if (act == Act::kill) end();
  if (act == Act::none) return true;
  errno = ENOSPC;
  return false;
}

std::string path_of(int descriptor) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

// `function` is open or open64, whose third argument is used if a file may be created.
int open_by(const char* function, const char* path, int flags, va_list arguments) {
  const bool makes = (flags & O_CREAT) != 0;
  const mode_t mode = makes ? va_arg(arguments, mode_t) : 0;
  if (makes && !goes_on("open", path)) return -1;
  return real<int(const char*, int, ...)>(function)(path, flags, mode);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int opened = open_by("open", path, flags, arguments);
  va_end(arguments);
  return opened;
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int opened = open_by("open64", path, flags, arguments);
  va_end(arguments);
  return opened;
}

ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  auto* const call = real<ssize_t(int, const void*, std::size_t)>("write");
  if (descriptor > STDERR_FILENO) {
    const Act act = act_at("write", path_of(descriptor));
    if (act != Act::none && size > 1 && call(descriptor, bytes, size / 2) < 0) std::abort();
    if (act == Act::kill) end();
    if (act == Act::full) {
      errno = ENOSPC;
      return -1;
    }
  }
  return call(descriptor, bytes, size);
}

ssize_t pwrite(int descriptor, const void* bytes, std::size_t size, off_t offset) {
  auto* const call = real<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  const Act act = act_at("write", path_of(descriptor));
  if (act != Act::none && size > 1 && call(descriptor, bytes, size / 2, offset) < 0) std::abort();
  if (act == Act::kill) end();
  if (act == Act::full) {
    errno = ENOSPC;
    return -1;
  }
  return call(descriptor, bytes, size, offset);
}

ssize_t pwrite64(int descriptor, const void* bytes, std::size_t size, off_t offset) {
  return pwrite(descriptor, bytes, size, offset);
}

int fsync(int descriptor) {
  if (!goes_on("fsync", path_of(descriptor).c_str())) return -1;
  return real<int(int)>("fsync")(descriptor);
}

int rename(const char* from, const char* to) {
  if (!goes_on("rename", to)) return -1;
  return real<int(const char*, const char*)>("rename")(from, to);
}

int unlink(const char* path) {
  if (!goes_on("unlink", path)) return -1;
  return real<int(const char*)>("unlink")(path);
}

int remove(const char* path) {
  if (!goes_on("unlink", path)) return -1;
  return real<int(const char*)>("remove")(path);
}

}  // extern "C"
