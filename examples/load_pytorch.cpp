// Reads a PyTorch checkpoint without Python: the names of its layers are mapped to those of
// models::LeNet, and the results must equal PyTorch's.
//   load_pytorch --checkpoint examples/data/lenet_digits.pt
// examples/train_lenet.py makes the checkpoint from digits that this program writes:
//   load_pytorch --export digits.npz
#include <volta/io/npy.h>
#include <volta/io/state_dict_mapper.h>
#include <volta/models.h>
#include <volta/volta.h>

#include <cstdio>

#include "options.h"

using namespace volta;

namespace {

Tensor images_of(const data::ImageDataset& digits) {
  return from_blob(digits.pixels().data(), {digits.size(), 1, 28, 28}, {.copy = true});
}

Tensor labels_of(const data::ImageDataset& digits) {
  return from_blob(digits.labels().data(), {digits.size()}, {.copy = true});
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(
      argc, argv,
      {{"checkpoint", "examples/data/lenet_digits.pt"}, {"export", ""}, {"count", "20000"}});
  const Device device = options.device();
  const data::ImageDataset test = data::digits(data::Split::test);

  if (const std::string path = options.text("export"); !path.empty()) {
    const auto train = data::digits(data::Split::train, {.count = options.number("count")});
    save_npz({{"train_images", images_of(train)},
              {"train_labels", labels_of(train)},
              {"test_images", images_of(test)}},
             path);
    return 0;
  }

  // The training checkpoint has the model's weights in f16, beside other state.
  const StateDict checkpoint = load(options.text("checkpoint"), {.device = device});
  for (const auto& [name, tensor] : checkpoint)
    std::printf("%-32s %-5s %s\n", name.c_str(), std::string(name_of(tensor.dtype())).c_str(),
                to_string(tensor.shape()).c_str());

  // PyTorch's model consists of two nn.Sequential, whose layers are numbered.
  const StateDict weights =
      StateDictMapper()
          .select(NamePattern::regex("^model\\."))
          .strip("model.")
          .rename(NamePattern::regex("^features\\.0\\."), "conv1.")
          .rename(NamePattern::regex("^features\\.3\\."), "conv2.")
          .rename(NamePattern::regex("^classifier\\.0\\."), "fc1.")
          .rename(NamePattern::regex("^classifier\\.2\\."), "fc2.")
          .rename(NamePattern::regex("^classifier\\.4\\."), "fc3.")(checkpoint);
  models::LeNet model({.device = device});
  model.load_state_dict(weights);  // strict; converts to the model's f32
  model.eval();

  NoGrad no_grad;
  const Tensor first = checkpoint.at("check.images").to(DType::f32) / 255.0f;
  const double difference = (model(first) - checkpoint.at("check.logits")).abs().max().item();
  std::printf("largest difference from PyTorch's logits %.2e\n", difference);

  data::DataLoader checks(test, {.batch_size = 250, .device = device});
  std::int64_t right = 0, seen = 0;
  for (const auto& [x, y] : checks) {
    right += model(x).argmax(1).eq(y).sum().item<std::int64_t>();
    seen += y.numel();
  }
  std::printf("test accuracy %.2f%%\n",
              100.0 * static_cast<double>(right) / static_cast<double>(seen));
  return difference <= 1e-3 ? 0 : 1;
}
