// Files exchanged with other programs; interchange_check.py runs these two tests around its own
// half.
#include <cstdlib>
#include <optional>

#include <gtest/gtest.h>

#include "volta/io/checkpoint.h"
#include "volta/io/npy.h"
#include "volta/io/summary_writer.h"
#include "volta/volta.h"

namespace volta {
namespace {

std::optional<std::string> folder() {
  const char* folder = std::getenv("VOLTA_TEST_INTERCHANGE");
  return folder == nullptr ? std::nullopt : std::optional<std::string>(folder);
}

// Element i of the tensor is i - 2, as far as the dtype can represent it.
Tensor counted(const Shape& shape, DType dtype) {
  const Tensor numbers = arange(shape.numel(), {.dtype = DType::i64}) -
                         (dtype == DType::u8 || dtype == DType::boolean ? 0 : 2);
  return numbers.to(dtype).reshape(shape);
}

StateDict every_dtype() {
  StateDict state;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    state.add("layer." + std::string(name_of(dtype)), counted({2, 3}, dtype));
  }
  state.add("caf\xC3\xA9", counted({}, DType::f32));
  state.add("none", zeros({0, 4}));
  return state;
}

void expect_counted(const StateDict& state, bool with_bf16) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::bf16 && !with_bf16) continue;
    const std::string name = "layer." + std::string(name_of(dtype));
    ASSERT_TRUE(state.contains(name)) << name;
    EXPECT_EQ(state.at(name).dtype(), dtype);
    EXPECT_EQ(state.at(name).shape(), (Shape{2, 3})) << name;
    EXPECT_EQ(state.at(name).to(DType::f64).to_vector<double>(),
              counted({2, 3}, dtype).to(DType::f64).to_vector<double>())
        << name;
  }
}

TEST(Interchange, WritesForOthers) {
  if (!folder()) GTEST_SKIP() << "interchange_check.py runs this";
  const std::string here = *folder() + "/";
  save(every_dtype(), here + "volta.safetensors", {.metadata = {{"format", "pt"}}});
  save(every_dtype(), here + "volta_sharded.safetensors", {.max_shard_bytes = 40});
  save(every_dtype(), here + "volta_checked.safetensors", {.metadata = {{"volta.crc32", ""}}});
  manual_seed(1);
  nn::Sequential model({{"fc1", nn::Linear(3, 4)}, {"fc2", nn::Linear(4, 2)}});
  const Tensor x = counted({5, 3}, DType::f32);
  save(model.state_dict(), here + "model.safetensors");
  save({{"x", x}, {"y", model(x)}}, here + "model_io.safetensors");
  StateDict arrays;
  for (const auto& [name, tensor] : every_dtype())
    if (tensor.dtype() != DType::bf16) arrays.add(name, tensor);
  save_npz(arrays, here + "volta_stored.npz");
  save_npz(arrays, here + "volta_deflated.npz", {.compress = true});
  save_npy(counted({2, 3}, DType::f64), here + "volta.npy");

  SummaryWriter writer(here + "run");
  for (int step = 0; step < 5; ++step) {
    writer.add_scalar("loss", 1.0 / (step + 1), step);
    writer.add_scalars("both", {{"a", step}, {"b", -step}}, step);
  }
  writer.add_histogram("weights", linspace(-1, 1, 1000), 4);
  writer.add_image("image", linspace(0, 1, 3 * 8 * 10).reshape({3, 8, 10}), 4);
  writer.add_text("notes", "caf\xC3\xA9 **bold**", 4);
}

TEST(Interchange, ReadsFromOthers) {
  if (!folder()) GTEST_SKIP() << "interchange_check.py runs this";
  const std::string here = *folder() + "/";
  expect_counted(load(here + "torch.safetensors"), true);
  expect_counted(load(here + "sharded"), true);
  for (const char* name :
       {"numpy_stored.npz", "numpy_deflated.npz", "numpy_fortran.npz", "numpy_big_endian.npz"})
    expect_counted(load_npz(here + name), false);
  const StateDict io = load(here + "torch_io.safetensors");
  nn::Sequential model({{"fc1", nn::Linear(3, 4)}, {"fc2", nn::Linear(4, 2)}});
  model.load_state_dict(load(here + "torch_model.safetensors"));  // without a mapping
  const Tensor difference = (model(io.at("x")) - io.at("y")).abs().max();
  EXPECT_LT(difference.item(), 1e-5);
}

}  // namespace
}  // namespace volta
