// Searches parameters of CLBlast's matrix product for one OpenCL device, those that
// backend/opencl/gemm_parameters.cpp gives CLBlast for devices it has none of:
//   volta_clblast_search DEVICE-NAME [SECONDS]
// Prints every improvement: milliseconds for each shape and the parameters.
#include <clblast.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Parameters = std::map<std::string, std::size_t>;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Shape {
  std::size_t m, n, k;
  bool transpose_a, transpose_b;
};
// A square product, a large one, and the three of a layer of 1,024 at batch 128.
constexpr Shape kShapes[] = {{1024, 1024, 1024, false, false},
                             {4096, 4096, 4096, false, false},
                             {128, 1024, 1024, false, true},
                             {128, 1024, 1024, false, false},
                             {1024, 1024, 128, true, false}};

const std::map<std::string, std::vector<std::size_t>> kIndirect = {
    {"GEMMK", {0}},         {"KREG", {1}},          {"KWG", {16, 32}},      {"KWI", {2, 8}},
    {"MDIMA", {8, 16, 32}}, {"MDIMC", {8, 16, 32}}, {"MWG", {32, 64, 128}}, {"NDIMB", {8, 16, 32}},
    {"NDIMC", {8, 16, 32}}, {"NWG", {32, 64, 128}}, {"SA", {0, 1}},         {"SB", {0, 1}},
    {"STRM", {0, 1}},       {"STRN", {0, 1}},       {"VWM", {1, 2, 4, 8}},  {"VWN", {1, 2, 4, 8}}};
const std::map<std::string, std::vector<std::size_t>> kDirect = {
    {"KWID", {2, 8, 16}},    {"MDIMAD", {8, 16, 32}}, {"MDIMCD", {8, 16, 32}},
    {"NDIMBD", {8, 16, 32}}, {"NDIMCD", {8, 16, 32}}, {"PADA", {0, 1}},
    {"PADB", {0, 1}},        {"VWMD", {1, 2, 4}},     {"VWND", {1, 2, 4}},
    {"WGD", {8, 16, 32, 64}}};

bool fits(const Parameters& p, bool direct) {
  const auto at = [&](const char* name) { return p.at(name); };
  const auto divides = [](std::size_t part, std::size_t whole) { return whole % part == 0; };
  if (direct) {
    const std::size_t w = at("WGD"), threads = at("MDIMCD") * at("NDIMCD");
    return threads >= 64 && threads <= 1024 && divides(at("KWID"), w) &&
           divides(at("MDIMCD") * at("VWMD"), w) && divides(at("NDIMCD") * at("VWND"), w) &&
           divides(at("MDIMAD") * at("VWMD"), w) && divides(at("NDIMBD") * at("VWND"), w) &&
           divides(at("MDIMAD"), threads) && divides(threads / at("MDIMAD"), w) &&
           divides(at("NDIMBD"), threads) && divides(threads / at("NDIMBD"), w) &&
           w * (2 * w + at("PADA") + at("PADB")) * 4 <= 48 * 1024;
  }
  const std::size_t threads = at("MDIMC") * at("NDIMC");
  return threads >= 64 && threads <= 512 && divides(at("KWI"), at("KWG")) &&
         divides(at("MDIMC") * at("VWM"), at("MWG")) &&
         divides(at("NDIMC") * at("VWN"), at("NWG")) &&
         divides(at("MDIMA") * at("VWM"), at("MWG")) &&
         divides(at("NDIMB") * at("VWN"), at("NWG")) && divides(at("MDIMA"), threads) &&
         divides(threads / at("MDIMA"), at("KWG")) && divides(at("NDIMB"), threads) &&
         divides(threads / at("NDIMB"), at("KWG")) &&
         at("KWG") * (at("SA") * at("MWG") + at("SB") * at("NWG")) * 4 <= 48 * 1024 &&
         at("MWG") / at("MDIMC") * (at("NWG") / at("NDIMC")) <= 128;
}

class Search {
 public:
  Search(cl_device_id device, double seconds) : device_(device), seconds_(seconds) {
    cl_int status = CL_SUCCESS;
    context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
    queue_ = clCreateCommandQueue(context_, device_, 0, &status);
    for (cl_mem& buffer : buffers_) {
      buffer = clCreateBuffer(context_, CL_MEM_READ_WRITE, std::size_t{4} << 24, nullptr, &status);
      const float one = 1;
      clEnqueueFillBuffer(queue_, buffer, &one, sizeof one, 0, std::size_t{4} << 24, 0, nullptr,
                          nullptr);
    }
  }

  // Milliseconds of a shape; negative when it does not run.
  double time(const Shape& s) {
    const auto run = [&] {
      return clblast::Gemm<float>(
          clblast::Layout::kRowMajor,
          s.transpose_a ? clblast::Transpose::kYes : clblast::Transpose::kNo,
          s.transpose_b ? clblast::Transpose::kYes : clblast::Transpose::kNo, s.m, s.n, s.k, 1.0f,
          buffers_[0], 0, s.transpose_a ? s.m : s.k, buffers_[1], 0, s.transpose_b ? s.k : s.n,
          0.0f, buffers_[2], 0, s.n, &queue_, nullptr);
    };
    if (run() != clblast::StatusCode::kSuccess) return -1;
    float first = 0;
    clEnqueueReadBuffer(queue_, buffers_[2], CL_TRUE, 4 * (s.m * s.n - 1), 4, &first, 0, nullptr,
                        nullptr);
    if (first != static_cast<float>(s.k)) return -1;
    const int repeats = s.m * s.n * s.k > (std::size_t{1} << 33) ? 3 : 30;
    double best = 1e30;
    for (int block = 0; block < 3; ++block) {
      const auto start = Clock::now();
      for (int i = 0; i < repeats; ++i) run();
      clFinish(queue_);
      best = std::min(best, seconds_since(start) * 1e3 / repeats);
    }
    return best;
  }

  void set(const std::string& kernel, const Parameters& parameters) {
    const std::unordered_map<std::string, std::size_t> given(parameters.begin(), parameters.end());
    clblast::OverrideParameters(device_, kernel, clblast::Precision::kSingle, given);
  }

  void report(const char* what) {
    std::printf("%s:", what);
    for (const Shape& shape : kShapes) std::printf(" %.4f", time(shape));
    std::printf(" ms\n");
    std::fflush(stdout);
  }

  // Random changes of the best so far, measured by the shapes that the kernel is for.
  void climb(const std::string& kernel,
             const std::map<std::string, std::vector<std::size_t>>& choices, Parameters best,
             std::vector<int> shapes) {
    const bool direct = kernel == "XgemmDirect";
    const auto cost = [&] {
      double product = 1;
      for (const int shape : shapes) {
        const double t = time(kShapes[shape]);
        if (t < 0) return 1e30;
        product *= t;
      }
      return product;
    };
    set(kernel, best);
    double least = cost();
    std::printf("%s start: cost %.5g\n", kernel.c_str(), least);
    std::mt19937 random(1);
    const auto start = Clock::now();
    int tried = 0;
    while (seconds_since(start) < seconds_) {
      Parameters next = best;
      do {
        next = best;
        const int changes = 1 + static_cast<int>(random() % 4);
        for (int i = 0; i < changes; ++i) {
          auto it = std::next(choices.begin(), static_cast<long>(random() % choices.size()));
          next[it->first] = it->second[random() % it->second.size()];
        }
      } while (next == best || !fits(next, direct));
      set(kernel, next);
      ++tried;
      const double now = cost();
      if (now >= least) continue;
      least = now;
      best = next;
      std::printf("%s cost %.5g:", kernel.c_str(), least);
      for (const auto& [name, value] : best) std::printf(" {\"%s\", %zu},", name.c_str(), value);
      std::printf("\n");
      std::fflush(stdout);
    }
    std::printf("%s: %d tried\n", kernel.c_str(), tried);
    set(kernel, best);
  }

 private:
  cl_device_id device_;
  double seconds_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_mem buffers_[3] = {};
};

cl_device_id find_device(const std::string& name) {
  cl_uint count = 0;
  clGetPlatformIDs(0, nullptr, &count);
  std::vector<cl_platform_id> platforms(count);
  clGetPlatformIDs(count, platforms.data(), nullptr);
  for (cl_platform_id platform : platforms) {
    cl_device_id devices[16];
    cl_uint found = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 16, devices, &found) != CL_SUCCESS) continue;
    for (cl_uint i = 0; i < std::min<cl_uint>(found, 16); ++i) {
      char text[256] = {};
      clGetDeviceInfo(devices[i], CL_DEVICE_NAME, sizeof text - 1, text, nullptr);
      if (std::string(text).find(name) != std::string::npos) return devices[i];
    }
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const cl_device_id device = argc > 1 ? find_device(argv[1]) : nullptr;
  if (device == nullptr) {
    std::fprintf(stderr, "usage: volta_clblast_search DEVICE-NAME [SECONDS]\n");
    return 2;
  }
  Search search(device, argc > 2 ? std::atof(argv[2]) : 60);
  search.report("CLBlast's own");
  search.set("GemmRoutine", {{"XGEMM_MIN_INDIRECT_SIZE", 1}});
  search.report("always indirect");
  search.climb("Xgemm", kIndirect,
               {{"GEMMK", 0},
                {"KREG", 1},
                {"KWG", 16},
                {"KWI", 2},
                {"MDIMA", 16},
                {"MDIMC", 16},
                {"MWG", 128},
                {"NDIMB", 16},
                {"NDIMC", 16},
                {"NWG", 128},
                {"SA", 1},
                {"SB", 1},
                {"STRM", 0},
                {"STRN", 0},
                {"VWM", 4},
                {"VWN", 4}},
               {0, 1});
  search.report("indirect, tuned");
  search.set("GemmRoutine", {{"XGEMM_MIN_INDIRECT_SIZE", 100000}});
  search.report("always direct");
  search.climb("XgemmDirect", kDirect,
               {{"KWID", 2},
                {"MDIMAD", 16},
                {"MDIMCD", 16},
                {"NDIMBD", 16},
                {"NDIMCD", 16},
                {"PADA", 1},
                {"PADB", 1},
                {"VWMD", 2},
                {"VWND", 2},
                {"WGD", 64}},
               {2, 3, 4});
  search.report("direct, tuned");
}
