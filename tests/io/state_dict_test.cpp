// State dicts: order and lookup, files of every dtype, strict and lenient loading.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/test_device.h"
#include "volta/volta.h"

using namespace volta;

namespace {

class TemporaryFile {
 public:
  TemporaryFile()
      : path_(testing::TempDir() + "volta_" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors") {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

template <class F>
std::string message_of(F&& fn) {
  try {
    fn();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

nn::Sequential make_model(Device device = test_device()) {
  nn::Sequential model({{"fc1", nn::Linear(2, 8)}, {"act", nn::Tanh()}, {"fc2", nn::Linear(8, 1)}});
  model.to(device);
  return model;
}

std::vector<std::vector<float>> values_of(const nn::Module& model) {
  std::vector<std::vector<float>> values;
  for (const Tensor& p : model.parameters()) values.push_back(p.to_vector<float>());
  return values;
}

}  // namespace

TEST(StateDict, KeepsOrderAndFindsByName) {
  StateDict state({{"b", ones({2})}, {"a", zeros({3})}});
  state.add("c", ones({}));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_EQ(state.at("a").shape(), (Shape{3}));
  EXPECT_EQ(state.find("d"), nullptr);
  EXPECT_EQ(message_of([&] { state.at("d"); }), "StateDict: there is no 'd'");
  EXPECT_EQ(message_of([&] { state.add("a", ones({})); }), "StateDict: 'a' is already there");
  EXPECT_EQ(message_of([&] { state.add("e", Tensor()); }), "StateDict: tensor 'e' is undefined");
  EXPECT_EQ(state.size(), 3u);
}

TEST(StateDict, EveryDTypeGoesThroughAFileBitForBit) {
  const TemporaryFile file;
  const std::vector<float> halves = {0.0f,     -0.0f,    1.5f,     -2.25f,
                                     65504.0f, 0x1p-14f, 0x1p-24f, -0x3p-20f};
  StateDict state;
  state.add("f16", from_vector(halves, {.dtype = DType::f16}));
  state.add("bf16", from_vector<float>({1.0f, -3.5f, 0x1p100f, 0x1p-120f}, {.dtype = DType::bf16}));
  state.add("f32", from_vector<float>({0.1f, -1e30f, 1e-40f}, {.device = test_device()}));
  state.add("f64", from_vector<double>({0.1, -1e300}));
  state.add("i32", from_vector<std::int32_t>({-5, 1 << 30}));
  state.add("i64", from_vector<std::int64_t>({-5, std::int64_t{1} << 60}));
  state.add("u8", from_vector<std::uint8_t>({0, 255}));
  state.add("bool", from_vector<std::uint8_t>({1, 0, 1}, {.dtype = DType::boolean}));
  state.add("scalar", scalar(2.5));
  state.add("empty", zeros({0, 4}));
  save(state, file.path());

  const StateDict back = load(file.path());
  ASSERT_EQ(back.size(), state.size());
  for (const auto& [name, tensor] : state) {
    EXPECT_EQ(back.at(name).dtype(), tensor.dtype()) << name;
    EXPECT_EQ(back.at(name).shape(), tensor.shape()) << name;
    EXPECT_EQ(back.at(name).device(), Device::cpu()) << name;
  }
  EXPECT_EQ(back.at("f16").to_vector<float>(), halves);
  EXPECT_EQ(back.at("bf16").to_vector<float>(), state.at("bf16").to_vector<float>());
  EXPECT_EQ(back.at("f32").to_vector<float>(), (std::vector<float>{0.1f, -1e30f, 1e-40f}));
  EXPECT_EQ(back.at("f64").to_vector<double>(), (std::vector<double>{0.1, -1e300}));
  EXPECT_EQ(back.at("i32").to_vector<std::int32_t>(), (std::vector<std::int32_t>{-5, 1 << 30}));
  EXPECT_EQ(back.at("i64").to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{-5, std::int64_t{1} << 60}));
  EXPECT_EQ(back.at("u8").to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(back.at("bool").to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(back.at("scalar").item(), 2.5);
  EXPECT_EQ(back.at("empty").numel(), 0);

  const StateDict moved = load(file.path(), {.device = test_device()});
  EXPECT_EQ(moved.at("f32").device(), test_device());
  EXPECT_EQ(moved.at("f32").to_vector<float>(), back.at("f32").to_vector<float>());
}

TEST(StateDict, AModelComesBackFromItsFile) {
  const TemporaryFile file;
  manual_seed(1);
  nn::Sequential model = make_model();
  save(model.state_dict(), file.path());
  manual_seed(2);
  nn::Sequential other = make_model();
  EXPECT_NE(values_of(other), values_of(model));
  const nn::LoadReport report = other.load_state_dict(load(file.path()));
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(values_of(other), values_of(model));
  EXPECT_EQ(other.device(), test_device());
  for (const Tensor& p : other.parameters()) EXPECT_TRUE(p.requires_grad() && p.is_leaf());
}

TEST(StateDict, IsASnapshot) {
  nn::Sequential model = make_model();
  const StateDict state = model.state_dict();
  const std::vector<float> before = state.at("fc1.weight").to_vector<float>();
  Tensor weight = model.parameters()[0];
  {
    NoGrad no_grad;
    weight += 1;
  }
  EXPECT_EQ(state.at("fc1.weight").to_vector<float>(), before);
  EXPECT_FALSE(state.at("fc1.weight").requires_grad());
  model.load_state_dict(state);
  EXPECT_EQ(weight.to_vector<float>(), before);
}

TEST(StateDict, StrictLoadingListsEverythingAndChangesNothing) {
  nn::Sequential model = make_model();
  const auto before = values_of(model);
  StateDict state({{"fc1.weight", ones({8, 2})},
                   {"fc1.bias", ones({9})},
                   {"fc2.weight", ones({8, 1})},
                   {"fc3.weight", ones({2, 2})},
                   {"extra", ones({})}});
  EXPECT_EQ(message_of([&] { model.load_state_dict(state); }),
            "load_state_dict: the state dict does not fit the module\n"
            "  missing: fc2.bias [1]\n"
            "  unexpected: fc3.weight [2, 2]\n"
            "  unexpected: extra []\n"
            "  wrong shape: fc1.bias is [8] in the module, [9] in the state dict\n"
            "  wrong shape: fc2.weight is [1, 8] in the module, [8, 1] in the state dict");
  EXPECT_EQ(values_of(model), before);

  const nn::LoadReport report = model.load_state_dict(state, {.strict = false});
  EXPECT_EQ(report.missing, (std::vector<std::string>{"fc2.bias [1]"}));
  EXPECT_EQ(report.unexpected, (std::vector<std::string>{"fc3.weight [2, 2]", "extra []"}));
  EXPECT_EQ(report.wrong_shape.size(), 2u);
  const auto after = values_of(model);
  EXPECT_EQ(after[0], std::vector<float>(16, 1.0f));
  EXPECT_EQ(after[1], before[1]);
  EXPECT_EQ(after[2], before[2]);
  EXPECT_EQ(after[3], before[3]);
}

// State dicts from before PyTorch 0.4.1 have no num_batches_tracked, and files do not state their
// version.
TEST(StateDict, BatchNormLoadsWithoutItsCount) {
  nn::Sequential model({nn::BatchNorm1d(2), nn::Linear(2, 2)});
  model(tensor({1, 2, 3, 4}, {2, 2}));
  StateDict old;
  for (const auto& [name, value] : model.state_dict()) {
    if (name != "0.num_batches_tracked") old.add(name, ones_like(value));
  }
  const nn::LoadReport report = model.load_state_dict(old);
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(model.state_dict().at("0.num_batches_tracked").item<std::int64_t>(), 1) << "as it was";
  EXPECT_EQ(model.state_dict().at("0.running_var").to_vector<float>(), (std::vector<float>{1, 1}));
  old.add("0.num_batches_tracked", full({}, 5, {.dtype = DType::i64}));
  model.load_state_dict(old);
  EXPECT_EQ(model.state_dict().at("0.num_batches_tracked").item<std::int64_t>(), 5);
  nn::Sequential normed({nn::InstanceNorm2d(2, {.track_running_stats = true})});
  EXPECT_TRUE(normed.load_state_dict({{"0.running_mean", ones({2})}, {"0.running_var", ones({2})}})
                  .complete());
  // All other buffers are required.
  EXPECT_EQ(message_of([&] { normed.load_state_dict({{"0.running_mean", ones({2})}}); }),
            "load_state_dict: the state dict does not fit the module\n"
            "  missing: 0.running_var [2]");
}

TEST(StateDict, LoadingConvertsToTheModulesDType) {
  nn::Linear layer(1, 2, {.device = test_device()});
  layer.load_state_dict({{"weight", from_vector<double>({0.5, 1.5}, {2, 1})},
                         {"bias", from_vector<std::int64_t>({3, 4})}});
  EXPECT_EQ(layer.weight->dtype(), DType::f32);
  EXPECT_EQ(layer.weight->to_vector<float>(), (std::vector<float>{0.5f, 1.5f}));
  EXPECT_EQ(layer.bias->to_vector<float>(), (std::vector<float>{3, 4}));
}

TEST(StateDict, SavingAndLoadingReportBadPaths) {
  EXPECT_THROW(load("/nonexistent/folder/model.safetensors"), IoError);
  EXPECT_THROW(save({{"a", ones({1})}}, "/nonexistent/folder/model.safetensors"), IoError);
}
