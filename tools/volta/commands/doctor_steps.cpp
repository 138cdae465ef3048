// Each step uses the public API and compares its values with those of the CPU.
#include "commands/doctor_steps.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string_view>
#include <system_error>

#include "output/units.h"
#include "volta/convolution.h"
#include "volta/counters.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/losses.h"
#include "volta/models/mlp.h"
#include "volta/nn/module.h"
#include "volta/ops.h"
#include "volta/optim/sgd.h"
#include "volta/random.h"
#include "volta/system_info.h"
#include "volta/tensor.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

bool is_cuda(const DoctorTarget& target) { return target.family == DeviceType::cuda; }

Device device_of(const DoctorTarget& target) {
  return is_cuda(target) ? Device::cuda(target.index) : Device::opencl(target.index);
}

// ---- Drivers and device files.

std::string driver_library(const DoctorTarget& target) {
  const char* name = is_cuda(target) ? "libcuda.so.1" : "libOpenCL.so.1";
  if (void* library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL)) {
    Dl_info where{};
    const void* symbol = ::dlsym(library, is_cuda(target) ? "cuInit" : "clGetPlatformIDs");
    if (symbol == nullptr)
      throw BackendError(fmt::format("{} is something else than a driver", name));
    return ::dladdr(symbol, &where) != 0 ? where.dli_fname : name;
  }
  throw BackendError(::dlerror());
}

// Returns the names of the files in a folder that begin with `start` and end with `end`.
std::vector<std::string> files_in(const fs::path& folder, std::string_view start,
                                  std::string_view end) {
  std::vector<std::string> found;
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(start) && name.ends_with(end)) found.push_back(entry->path().string());
  }
  return found;
}

// Returns the first of the files that this user may not access.
std::string forbidden_one(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::error_code failure;
    if (fs::status(file, failure).type() == fs::file_type::character &&
        ::access(file.c_str(), R_OK | W_OK) != 0)
      return file;
  }
  return {};
}

std::string cuda_files() {
  const std::vector<std::string> files = files_in("/dev", "nvidia", "");
  if (const std::string file = forbidden_one(files); !file.empty())
    throw BackendError(fmt::format("{}: permission denied", file));
  if (files.empty()) return "no /dev/nvidia* here; some systems have others";
  return fmt::format("{}", fmt::join(files, " "));
}

std::string opencl_files() {
  const char* named = std::getenv("OCL_ICD_VENDORS");
  const std::string place = named != nullptr && *named != '\0' ? named : "/etc/OpenCL/vendors";
  std::error_code failure;
  std::vector<std::string> drivers;
  if (fs::is_directory(place, failure)) {
    drivers = files_in(place, "", ".icd");
  } else if (fs::exists(place, failure)) {
    drivers = {place};
  }
  if (drivers.empty()) throw BackendError(fmt::format("no driver is registered in {}", place));
  std::string found = fmt::format("{}", fmt::join(drivers, " "));
  // OpenCL drivers for CPUs need no device files.
  if (const std::string file = forbidden_one(files_in("/dev/dri", "renderD", "")); !file.empty())
    found += fmt::format("; but {}: permission denied", file);
  return found;
}

std::string driver_files(const DoctorTarget& target) {
  return is_cuda(target) ? cuda_files() : opencl_files();
}

// ---- Volta's backend and devices.

std::string backend(const DoctorTarget& target) {
  if (const std::string why = why_absent(target.family); !why.empty()) throw DeviceError(why);
  std::string found;
  for (const LibraryInfo& library : libraries(target.family)) {
    if (!found.empty()) found += ", ";
    found += library.version.empty() ? fmt::format("no {} ({})", library.name, library.note)
                                     : fmt::format("{} {}", library.name, library.version);
  }
  return found;
}

std::string listed(const DoctorTarget& target) {
  const Device device = device_of(target);
  if (device.is_cpu()) throw DeviceError("VOLTA_FALLBACK=cpu put the CPU in its place");
  return fmt::format("{}: {}, {}{}", to_string(device), device.name(),
                     human_bytes(device.total_memory()),
                     device.capabilities().gpu ? "" : ", not a GPU");
}

std::string opened(const DoctorTarget& target) {
  const Device device = device_of(target);
  synchronize(device);
  const auto free = free_memory(device);
  return free ? human_bytes(*free) + " free" : "ready";
}

// ---- Values.

// Throws if the values differ by more than rounding.
double compare(const char* what, const Tensor& found, const Tensor& expected, double tolerance) {
  const std::vector<float> a = found.to_vector<float>(), b = expected.to_vector<float>();
  double worst = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    // The comparison is negated, so that NaN fails.
    if (!(difference <= tolerance * (1 + std::abs(b[i]))))
      throw BackendError(
          fmt::format("{}: element {} is {} on the device and {} on the CPU", what, i, a[i], b[i]));
    worst = std::max(worst, difference);
  }
  return worst;
}

std::string agreement(double worst) {
  return worst == 0 ? "exactly as on the CPU" : fmt::format("as on the CPU within {:.1g}", worst);
}

std::string memory(const DoctorTarget& target) {
  std::vector<float> values(std::size_t{1} << 18);
  std::iota(values.begin(), values.end(), 0.0F);
  const Tensor host = from_vector(values);
  const Tensor moved = host.to(device_of(target)).eval();
  if (moved.to(Device::cpu()).to_vector<float>() != values)
    throw BackendError("1 MiB came back from the device with other bytes");
  return "1 MiB there and back";
}

std::string kernel(const DoctorTarget& target) {
  const Tensor x = linspace(-2, 2, 1000);
  const auto curve = [](const Tensor& t) { return (t * 3 + 1).tanh() * t.exp(); };
  return agreement(compare("a kernel", curve(x.to(device_of(target))), curve(x), 1e-5));
}

std::string product(const DoctorTarget& target) {
  constexpr std::int64_t kSize = 128;
  manual_seed(1);
  const Tensor a = randn({kSize, kSize}), b = randn({kSize, kSize});
  const std::uint64_t calls = counters().library_calls;
  const Tensor found = matmul(a.to(device_of(target)), b.to(device_of(target))).eval();
  const bool by_library = counters().library_calls > calls;
  return fmt::format("{}, {}", by_library ? "by the library" : "by generated kernels",
                     agreement(compare("a product", found, matmul(a, b), 1e-4)));
}

std::string convolution(const DoctorTarget& target) {
  manual_seed(2);
  const Tensor x = randn({2, 8, 12, 12}), weight = randn({16, 8, 3, 3});
  const std::uint64_t calls = counters().library_calls;
  const Tensor found = conv2d(x.to(device_of(target)), weight.to(device_of(target))).eval();
  const bool by_library = counters().library_calls > calls;
  return fmt::format("{}, {}", by_library ? "by the library" : "by generated kernels",
                     agreement(compare("a convolution", found, conv2d(x, weight), 1e-4)));
}

std::string training(const DoctorTarget& target) {
  const auto trained = [](Device device) {
    manual_seed(3);
    models::MLP model({16, 32, 4});
    const Tensor x = randn({8, 16}).to(device), y = randn({8, 4}).to(device);
    model.to(device);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      mse_loss(model(x), y).backward();
      optimizer.step();
    }
    return model.state_dict();
  };
  const StateDict expected = trained(Device::cpu()), found = trained(device_of(target));
  double worst = 0;
  for (const auto& [name, tensor] : expected)
    worst = std::max(worst, compare(name.c_str(), found.at(name), tensor, 1e-4));
  return "3 steps, " + agreement(worst);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string cuda_advice(const std::string& step, const std::string& message) {
  if (step == "driver")
    return "Install NVIDIA's driver (Debian: apt-get install nvidia-driver, from non-free) and "
           "restart; in a container, start it with its GPUs (docker run --gpus all).";
  if (step == "files")
    return "Add yourself to the group that owns the file (usermod -aG video USER, then log in "
           "again); in a container, give it the device.";
  if (step == "backend") {
    if (has(message, "not built"))
      return "Build Volta with the CUDA toolkit's headers (VOLTA_CUDA=ON), or put libvolta_cuda.so "
             "beside libvolta.so.";
    if (has(message, "NVRTC"))
      return "Install NVRTC (cuda-nvrtc-12-6 of NVIDIA's repository, Debian's "
             "nvidia-cuda-toolkit, or the wheel nvidia-cuda-nvrtc-cu12) and name its folder in "
             "VOLTA_CUDA_LIBS if it is not a usual one.";
    if (has(message, "too old"))
      return "Install a newer driver; Volta needs one for CUDA 12 or later.";
    if (has(message, "another build")) return "Install libvolta and its backends from one build.";
    return "See that the kernel module is loaded and fits the driver (nvidia-smi, modprobe nvidia; "
           "after an update, restart), and that CUDA_VISIBLE_DEVICES leaves a device.";
  }
  if (step == "device") return "volta info lists the devices that are there.";
  if (step == "context" || step == "memory")
    return "See with nvidia-smi whether other processes use all of the device's memory, or the "
           "device is in exclusive mode or has failed (dmesg | grep -i nvrm).";
  if (step == "kernel")
    return "NVRTC must know the GPU: install one of a CUDA version that supports it. "
           "VOLTA_LOG=debug "
           "tells more.";
  return "Please report this with the output of volta info: the device computes something else "
         "than the CPU, or a library failed.";
}

std::string opencl_advice(const std::string& step, const std::string& message) {
  if (step == "driver") return "Install the OpenCL loader: apt-get install ocl-icd-libopencl1.";
  if (step == "files" || has(message, "no OpenCL platform"))
    return "Install a driver: apt-get install nvidia-opencl-icd (NVIDIA), intel-opencl-icd "
           "(Intel), mesa-opencl-icd (AMD and others) or pocl-opencl-icd (any CPU); each puts a "
           "file into /etc/OpenCL/vendors, which OCL_ICD_VENDORS can replace.";
  if (step == "backend") {
    if (has(message, "not built"))
      return "Build Volta with OpenCL's headers (apt-get install ocl-icd-opencl-dev; "
             "VOLTA_OPENCL=ON), or put libvolta_opencl.so beside libvolta.so.";
    if (has(message, "VOLTA_OPENCL_DEVICE")) return "Change VOLTA_OPENCL_DEVICE, or unset it.";
    return "Where the GPU's own driver shows no device, add yourself to the group that owns "
           "/dev/dri/renderD128 (usermod -aG render USER, then log in again); clinfo tells more.";
  }
  if (step == "device") return "volta info lists the devices that are there.";
  if (step == "context" || step == "memory")
    return "Look at the driver with clinfo, and whether others use all of the device's memory.";
  if (step == "kernel")
    return "The driver's compiler refused or failed; a newer driver may do. VOLTA_LOG=debug tells "
           "more.";
  return "Please report this with the output of volta info: the device computes something else "
         "than the CPU, or the driver failed.";
}

}  // namespace

const std::vector<DoctorStep>& doctor_steps() {
  static const std::vector<DoctorStep> steps = {
      {"driver", "The driver's library is found", driver_library},
      {"files", "Its files can be used", driver_files},
      {"backend", "Volta's backend loads", backend},
      {"device", "The device is listed", listed},
      {"context", "The device is opened", opened},
      {"memory", "Memory is allocated and copied", memory},
      {"kernel", "A kernel is compiled and run", kernel},
      {"product", "Matrices are multiplied", product},
      {"convolution", "Images are convolved", convolution},
      {"training", "A model trains as on the CPU", training},
  };
  return steps;
}

std::string doctor_hint(const DoctorTarget& target, const std::string& step,
                        const std::string& detail) {
  if (step == "files" && !is_cuda(target) && has(detail, "permission denied"))
    return "For GPUs, add yourself to the group that owns the file (usermod -aG render USER, then "
           "log in again).";
  if (step != "backend" || !is_cuda(target)) return {};
  std::string hint;
  if (has(detail, "no cuBLASLt"))
    hint +=
        "Products are slow without cuBLASLt: install libcublas-12-6 of NVIDIA's repository or "
        "the wheel nvidia-cublas-cu12. ";
  if (has(detail, "no cuDNN (libcudnn"))
    hint +=
        "Convolutions are slow without cuDNN: install libcudnn9-cuda-12 of NVIDIA's repository "
        "or the wheel nvidia-cudnn-cu12. ";
  if (has(detail, "no cuDNN (built"))
    hint +=
        "Convolutions are slow without cuDNN: build Volta with its headers "
        "(scripts/cudnn_frontend.sh). ";
  if (has(hint, "wheel")) hint += "VOLTA_CUDA_LIBS names the folder of wheels.";
  return hint.substr(0, hint.find_last_not_of(' ') + 1);
}

std::string doctor_advice(const DoctorTarget& target, const std::string& step,
                          const std::string& message) {
  return is_cuda(target) ? cuda_advice(step, message) : opencl_advice(step, message);
}

std::string doctor_advice_when_late(const DoctorTarget& target, double timeout) {
  return fmt::format(
      "Give it longer, in case the machine is busy or kernels are compiled for the first time: "
      "volta doctor --timeout {:g}. Where it never answers, the driver hangs: see what it says "
      "({}), restart the machine, or install another version of the driver.",
      std::max(1.0, 5 * timeout), is_cuda(target) ? "nvidia-smi, dmesg | grep -i nvrm" : "clinfo");
}

std::string doctor_advice_after_crash(const DoctorTarget& target) {
  return fmt::format(
      "The driver, or a library that it loads, ended the process: see whether {} does as well, and "
      "install another version of the driver. If only Volta does, please report it with the output "
      "of volta info.",
      is_cuda(target) ? "nvidia-smi or another CUDA program" : "clinfo");
}

}  // namespace volta::cli
