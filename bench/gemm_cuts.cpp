// Times ways to tile matrix products on one OpenCL device, the evidence for choose_gemm in
// backend/common/gemm_launches.cpp:
//   volta_gemm_cuts DEVICE-NAME [M N K [nn|nt|tn|tt [f32|f64|f16|bf16 [BATCH]]]]
// Without a shape it times large squares, the products of a layer of 1,024 at batch 128, thin
// products and long sums. Times are device times of all kernels of a product, the best of several
// runs. A star marks the choice of choose_gemm, a dash the kernel program of small products.
// $VOLTA_OPENCL_OPTIONS applies as in the library.
#include <CL/cl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/common/gemm_launches.h"
#include "backend/common/matmul_program.h"

namespace {

using volta::DType;
using volta::GemmCut;
using volta::GemmLaunch;
using volta::GemmLaunches;
using volta::plan::MatmulStep;

void check(cl_int status, const char* what) {
  if (status != CL_SUCCESS)
    throw std::runtime_error(std::string(what) + " failed with " + std::to_string(status));
}

class Device {
 public:
  explicit Device(const std::string& name) {
    cl_uint count = 0;
    check(clGetPlatformIDs(0, nullptr, &count), "clGetPlatformIDs");
    std::vector<cl_platform_id> platforms(count);
    check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
    for (cl_platform_id platform : platforms) {
      std::array<cl_device_id, 16> devices{};
      if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, devices.size(), devices.data(), &count) !=
          CL_SUCCESS)
        continue;
      for (cl_uint i = 0; i < std::min<cl_uint>(count, devices.size()); ++i) {
        std::array<char, 256> text{};
        clGetDeviceInfo(devices[i], CL_DEVICE_NAME, text.size() - 1, text.data(), nullptr);
        if (device_ == nullptr && std::strstr(text.data(), name.c_str()) != nullptr) {
          device_ = devices[i];
          std::printf("%s\n", text.data());
        }
      }
    }
    if (device_ == nullptr) throw std::runtime_error("no OpenCL device is called " + name);
    if (const char* extra = std::getenv("VOLTA_OPENCL_OPTIONS")) options_.append(" ").append(extra);
    cl_int status = CL_SUCCESS;
    context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
    check(status, "clCreateContext");
    queue_ = clCreateCommandQueue(context_, device_, CL_QUEUE_PROFILING_ENABLE, &status);
    check(status, "clCreateCommandQueue");
  }

  bool is_gpu() const {
    cl_device_type type = 0;
    clGetDeviceInfo(device_, CL_DEVICE_TYPE, sizeof type, &type, nullptr);
    return (type & CL_DEVICE_TYPE_GPU) != 0;
  }

  cl_mem allocate(std::size_t bytes) {
    cl_int status = CL_SUCCESS;
    cl_mem memory = clCreateBuffer(context_, CL_MEM_READ_WRITE, bytes, nullptr, &status);
    check(status, "clCreateBuffer");
    const cl_uint pattern = 0x3c003c00;  // a small number in every dtype
    check(clEnqueueFillBuffer(queue_, memory, &pattern, sizeof pattern, 0, bytes / 4 * 4, 0,
                              nullptr, nullptr),
          "clEnqueueFillBuffer");
    return memory;
  }

  // Returns the seconds of the product's kernels, the best of several runs, or 0 if the device
  // refuses them. `narrow` selects 32-bit integers.
  double time(const GemmLaunches& all, const std::array<cl_mem, 3>& operands, bool narrow) {
    constexpr int kRuns = 12;
    std::vector<cl_kernel> kernels;
    cl_mem partial = allocate(std::max<std::size_t>(4, all.partial_bytes));
    for (const GemmLaunch& launch : all.launches) {
      const char* text = launch.source.text.c_str();
      cl_program program = clCreateProgramWithSource(context_, 1, &text, nullptr, nullptr);
      if (clBuildProgram(program, 1, &device_, options_.c_str(), nullptr, nullptr) != CL_SUCCESS)
        return 0;
      cl_kernel kernel = clCreateKernel(program, launch.source.name.c_str(), nullptr);
      kernels.push_back(kernel);
      cl_uint next = 0;
      for (const GemmLaunch::Buffer buffer : launch.buffers) {
        const cl_ulong offset = 0;
        const auto at = static_cast<std::size_t>(buffer);
        clSetKernelArg(kernel, next++, sizeof(cl_mem), at < 3 ? &operands[at] : &partial);
        clSetKernelArg(kernel, next++, sizeof offset, &offset);
      }
      const std::vector<cl_int> ints(launch.ints.begin(), launch.ints.end());
      if (narrow) {
        clSetKernelArg(kernel, next, ints.size() * sizeof(cl_int), ints.data());
      } else {
        clSetKernelArg(kernel, next, launch.ints.size() * sizeof(cl_long), launch.ints.data());
      }
    }
    double best = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
      std::vector<cl_event> events;
      for (std::size_t i = 0; i < kernels.size(); ++i) {
        const auto threads = static_cast<std::size_t>(all.launches[i].threads);
        const std::size_t global = threads * static_cast<std::size_t>(all.launches[i].blocks);
        cl_event event = nullptr;
        if (clEnqueueNDRangeKernel(queue_, kernels[i], 1, nullptr, &global, &threads, 0, nullptr,
                                   &event) != CL_SUCCESS)
          return 0;
        events.push_back(event);
      }
      check(clFinish(queue_), "clFinish");
      cl_ulong begin = 0, end = 0;
      clGetEventProfilingInfo(events.front(), CL_PROFILING_COMMAND_START, sizeof begin, &begin,
                              nullptr);
      clGetEventProfilingInfo(events.back(), CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr);
      best = std::min(best, static_cast<double>(end - begin) * 1e-9);
      for (cl_event event : events) clReleaseEvent(event);
    }
    for (cl_kernel kernel : kernels) clReleaseKernel(kernel);
    clReleaseMemObject(partial);
    return best;
  }

 private:
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::string options_ = "-cl-std=CL1.2 -w";
};

MatmulStep product(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a,
                   bool transpose_b, DType dtype = DType::f32, std::int64_t batch = 1) {
  MatmulStep s;
  s.dtype = dtype;
  s.transpose_a = transpose_a, s.transpose_b = transpose_b;
  s.m = m, s.n = n, s.k = k, s.batch = batch;
  s.lda = transpose_a ? m : k, s.ldb = transpose_b ? k : n, s.ldc = n;
  s.stride_a = m * k, s.stride_b = k * n, s.stride_c = m * n;
  return s;
}

std::vector<GemmCut> cuts_for(const MatmulStep& s) {
  std::vector<GemmCut> cuts{volta::choose_gemm(s)};
  const auto add = [&](int rows, int columns, int depth, int tile, int slices) {
    for (const std::int64_t chunks : {1, 2, 4, 8, 16, 32}) {
      if (chunks > 1 && (s.k / chunks < 64 || s.m * s.n > (1 << 20))) continue;
      const GemmCut cut{{rows, columns, depth, tile, slices}, chunks};
      if (!(cut == cuts.front())) cuts.push_back(cut);
    }
  };
  if (std::min(s.m, s.n) <= 16) {
    const int rows = s.n <= 16 ? 64 : 16;
    for (const int slices : {1, 2, 4}) add(rows, 80 - rows, 16, 4, slices);
    return cuts;
  }
  if (s.dtype != DType::f64) {
    for (const int depth : {8, 16}) {
      add(128, 128, depth, 8, 1);
      for (const int slices : {1, 2, 4}) add(64, 64, depth, 8, slices);
    }
  }
  for (const int depth : {8, 16}) add(64, 64, depth, 4, 1);
  for (const int slices : {1, 2, 4}) add(32, 32, 16, 4, slices);
  return cuts;
}

// The product as a kernel program, to which small products are lowered.
GemmLaunches program_launches(const MatmulStep& s) {
  const volta::plan::KernelStep step = volta::lower_matmul(s);
  const volta::kernel::Program& program = *step.program;
  GemmLaunches all;
  all.launches.push_back({volta::kernel::emit(program, volta::kernel::Dialect::OpenCL),
                          volta::kernel::block_threads(program),
                          volta::kernel::block_count(program, step.segments[0].ints),
                          {GemmLaunch::Buffer::A, GemmLaunch::Buffer::B, GemmLaunch::Buffer::C},
                          step.segments[0].ints});
  return all;
}

void measure(Device& device, const MatmulStep& s) {
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(s.batch * elements) * volta::size_of(s.dtype);
  };
  const std::array<cl_mem, 3> operands{device.allocate(bytes(s.m * s.k)),
                                       device.allocate(bytes(s.k * s.n)),
                                       device.allocate(bytes(s.m * s.n))};
  std::printf("\n%s, %lld x %lld x %lld (m, n, k), batch %lld, %c%c\n",
              std::string(volta::name_of(s.dtype)).c_str(), static_cast<long long>(s.m),
              static_cast<long long>(s.n), static_cast<long long>(s.k),
              static_cast<long long>(s.batch), s.transpose_a ? 't' : 'n',
              s.transpose_b ? 't' : 'n');
  const double operations = 2.0 * static_cast<double>(s.batch) * static_cast<double>(s.m) *
                            static_cast<double>(s.n) * static_cast<double>(s.k);
  struct Result {
    double seconds;
    std::string text;
  };
  std::vector<Result> results;
  const auto add = [&](const GemmLaunches& launches, const std::string& text, bool narrow = false) {
    const double seconds = device.time(launches, operands, narrow);
    if (seconds > 0) results.push_back({seconds, text});
  };
  if (device.is_gpu()) {
    bool first = true;
    for (const GemmCut& cut : cuts_for(s)) {
      std::array<char, 128> text{};
      std::snprintf(
          text.data(), text.size(), "%c %3d x %3d x %2d, %d x %d a thread, %d slices, %2lld chunks",
          first ? '*' : ' ', cut.tile.rows, cut.tile.columns, cut.tile.depth, cut.tile.thread_tile,
          cut.tile.thread_tile, cut.tile.slices, static_cast<long long>(cut.chunks));
      first = false;
      add(gemm_launches(s, cut, volta::kernel::Dialect::OpenCL), text.data());
    }
  } else {
    add(volta::gemm_strip_launches(s), "* strips");
  }
  if (!volta::needs_index64(s) && operations < 1e10)
    add(program_launches(s), "- a kernel program", true);
  constexpr std::size_t kShown = 8;
  std::ranges::sort(results, {}, &Result::seconds);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i < kShown || results[i].text.front() != ' ') {
      std::printf("%10.1f us %8.2f TFLOP/s  %s\n", results[i].seconds * 1e6,
                  operations / results[i].seconds * 1e-12, results[i].text.c_str());
    }
  }
  std::fflush(stdout);
  for (cl_mem memory : operands) clReleaseMemObject(memory);
}

int run(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr,
                 "usage: volta_gemm_cuts DEVICE-NAME [M N K [nn|nt|tn|tt [DTYPE [BATCH]]]]\n");
    return 1;
  }
  Device device(arguments[1]);
  if (count >= 5) {
    const std::string turned = count > 5 ? arguments[5] : "nn",
                      dtype = count > 6 ? arguments[6] : "f32";
    DType type = DType::f32;
    for (const DType t : {DType::f64, DType::f16, DType::bf16}) {
      if (dtype == volta::name_of(t)) type = t;
    }
    measure(device, product(std::atoll(arguments[2]), std::atoll(arguments[3]),
                            std::atoll(arguments[4]), turned[0] == 't', turned[1] == 't', type,
                            count > 7 ? std::atoll(arguments[7]) : 1));
    return 0;
  }
  for (const MatmulStep& s :
       {product(1024, 1024, 1024, false, false), product(2048, 2048, 2048, false, false),
        product(4096, 4096, 4096, false, false), product(8192, 8192, 8192, false, true),
        product(128, 1024, 784, false, true), product(128, 1024, 1024, false, true),
        product(128, 1024, 1024, false, false), product(1024, 784, 128, true, false),
        product(1024, 1024, 128, true, false), product(128, 10, 1024, false, true),
        product(10, 1024, 128, true, false), product(128, 1024, 10, false, false),
        product(128, 128, 128, false, false), product(4096, 10, 1024, false, true),
        product(256, 256, 65536, true, false), product(128, 128, 64, false, true, DType::f32, 256),
        product(4096, 4096, 4096, false, true, DType::bf16),
        product(2048, 2048, 2048, false, false, DType::f64)})
    measure(device, s);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
