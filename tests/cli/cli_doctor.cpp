// volta doctor, with drivers that work, are absent, crash or hang.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "cli_program.h"
#include "commands/doctor_steps.h"
#include "volta/device.h"

namespace volta::cli {
namespace {

using nlohmann::json;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class CliDoctor : public Program {
 protected:
  // The first failed step of the only device.
  static json failure(const json& document) {
    for (const json& step : document[0]["steps"])
      if (step["result"] == "failed") return step;
    return {};
  }
  // An OpenCL loader that finds this driver and no other.
  How driver(const std::string& name) const {
    std::filesystem::create_directory(path("vendors"));
    put("vendors/only.icd", driver_folder() + "/libvolta_driver_" + name + ".so\n");
    return {.environment = {{"OCL_ICD_VENDORS", path("vendors")}}};
  }
  // Why there is no OpenCL device; empty if there is one.
  std::string why_no_opencl() const {
    const json info = json_of({"info", "--json"});
    for (const json& absent : info["absent"])
      if (absent["family"] == "opencl") return absent["why"];
    return {};
  }
  bool has_opencl() const { return why_no_opencl().empty(); }
  bool has_backend() const { return !has(why_no_opencl(), "not built"); }
};

TEST_F(CliDoctor, ADeviceThatWorksPassesEveryStep) {
  if (!has_opencl()) GTEST_SKIP() << "no OpenCL device";
  const Ended ended = volta({"doctor", "--device", "opencl"});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_TRUE(has(ended.out, "ok        A model trains as on the CPU: 3 steps")) << ended.out;
  EXPECT_FALSE(has(ended.out, "failed"));
}

TEST_F(CliDoctor, WithoutADriverItSaysWhatToInstall) {
  const Ended first = volta({"doctor", "--device", "opencl"});
  if (has(first.out, "failed    The driver's library")) GTEST_SKIP() << "no OpenCL loader";
  const How none = {.environment = {{"OCL_ICD_VENDORS", path("nothing")}}};
  const Ended ended = volta({"doctor", "--device", "opencl"}, none);
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(has(ended.out, "failed")) << ended.out;
  EXPECT_TRUE(has(ended.out, "not tried")) << ended.out;
  const json step = failure(json_of({"doctor", "--device", "opencl", "--json"}, none));
  EXPECT_EQ(step["step"], "files");
  EXPECT_TRUE(has(step["advice"], "pocl-opencl-icd")) << step;
}

TEST_F(CliDoctor, ADriverThatCrashesTakesTheChildOnly) {
  if (!has_backend()) GTEST_SKIP() << "the OpenCL backend is not built";
  const json step = failure(json_of({"doctor", "--device", "opencl", "--json"}, driver("crash")));
  EXPECT_EQ(step["step"], "backend");
  EXPECT_TRUE(has(step["detail"], "the process crashed: Aborted")) << step;
  EXPECT_TRUE(has(step["advice"], "another version of the driver")) << step;
}

TEST_F(CliDoctor, ADriverThatHangsIsEnded) {
  if (!has_backend()) GTEST_SKIP() << "the OpenCL backend is not built";
  const auto start = std::chrono::steady_clock::now();
  const json step = failure(
      json_of({"doctor", "--device", "opencl", "--json", "--timeout", "1"}, driver("hang")));
  EXPECT_EQ(step["step"], "backend");
  EXPECT_EQ(step["detail"], "no answer after 1 seconds");
  EXPECT_TRUE(has(step["advice"], "volta doctor --timeout 5")) << step;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST_F(CliDoctor, AStepThatTakesTooLongNeedsNoInstallation) {
  const json step = failure(
      json_of({"doctor", "--device", "opencl", "--json", "--timeout", "0.1"}, driver("hang")));
  if (!has(step["detail"], "no answer")) GTEST_SKIP() << "there is no driver to wait for";
  EXPECT_FALSE(has(step["advice"], "apt-get")) << step;
  EXPECT_TRUE(has(step["advice"], "--timeout 1")) << step;
}

TEST_F(CliDoctor, ADeviceThatIsNotThere) {
  if (!has_opencl()) GTEST_SKIP() << "no OpenCL device";
  const json step = failure(json_of({"doctor", "--device", "opencl:200", "--json"}));
  EXPECT_EQ(step["step"], "device");
  EXPECT_TRUE(has(step["detail"], "opencl:200")) << step;
}

TEST_F(CliDoctor, AdviceNamesPackages) {
  const DoctorTarget cuda{.family = DeviceType::cuda}, opencl{.family = DeviceType::opencl};
  EXPECT_TRUE(has(doctor_advice(cuda, "driver", "libcuda.so.1: cannot open"), "nvidia-driver"));
  EXPECT_TRUE(has(doctor_advice(cuda, "files", "/dev/nvidia0: permission denied"), "usermod -aG"));
  EXPECT_TRUE(
      has(doctor_advice(cuda, "backend", "NVRTC (libnvrtc.so) was not found"), "cuda-nvrtc-"));
  EXPECT_TRUE(has(doctor_advice(cuda, "backend", "the CUDA driver sees no device"), "nvidia-smi"));
  EXPECT_TRUE(
      has(doctor_advice(opencl, "driver", "libOpenCL.so.1: cannot open"), "ocl-icd-libopencl1"));
  EXPECT_TRUE(has(doctor_advice(opencl, "files", "no driver is registered"), "pocl-opencl-icd"));
  EXPECT_TRUE(has(doctor_advice(opencl, "backend", "platforms have no device"), "render"));
  EXPECT_TRUE(
      has(doctor_hint(cuda, "backend", "NVRTC 12.6, no cuBLASLt (libcublasLt.so was not found)"),
          "libcublas-"));
  EXPECT_TRUE(
      has(doctor_hint(cuda, "backend", "no cuDNN (libcudnn.so.9 was not found)"), "libcudnn9-"));
  EXPECT_TRUE(has(doctor_hint(opencl, "files", "a.icd; but /dev/dri/renderD128: permission denied"),
                  "render"));
  EXPECT_EQ(
      doctor_hint(cuda, "backend", "CUDA driver 12.6, NVRTC 12.6, cuBLASLt 12.6.4, cuDNN 9.5.0"),
      "");
  // There is advice for every failure.
  for (const DoctorStep& step : doctor_steps())
    for (const DoctorTarget& target : {cuda, opencl})
      EXPECT_FALSE(doctor_advice(target, step.name, "").empty()) << step.name;
}

// Without CUDA the doctor says so; with CUDA all steps succeed.
TEST_F(CliDoctor, CudaIsThereOrItIsSaidWhy) {
  const json document = json_of({"doctor", "--device", "cuda", "--json"});
  ASSERT_EQ(document[0]["device"], "cuda:0");
  if (document[0]["ok"] == true) return;
  const json step = failure(document);
  EXPECT_FALSE(step["detail"].get<std::string>().empty());
  EXPECT_FALSE(step["advice"].get<std::string>().empty());
}

}  // namespace
}  // namespace volta::cli
