// Ready-made models without golden numbers: names, shapes and sizes as in torchvision, their
// outputs, that they learn, and that their heads can be replaced.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "support/test_device.h"
#include "volta/models.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Shapes = std::vector<std::pair<std::string, Shape>>;

// Models are constructed and described without computing anything, including their weights.
void expect_layout(const std::string& what, nn::Module& model, std::size_t entries,
                   std::int64_t parameters, const Shapes& some) {
  SCOPED_TRACE(what);
  const StateDict state = model.state_dict();
  EXPECT_EQ(state.size(), entries);
  for (const auto& [name, shape] : some) {
    ASSERT_TRUE(state.contains(name)) << name;
    EXPECT_EQ(state.at(name).shape(), shape) << name;
  }
  std::int64_t count = 0;
  for (const Tensor& p : model.parameters()) count += p.numel();
  EXPECT_EQ(count, parameters);
}

void expect_outputs(nn::Module& model, const Shape& input, const Shapes& wanted,
                    DType dtype = DType::f32) {
  const nn::Summary summary = model.summary(input, {.dtype = dtype});
  for (const auto& [name, shape] : wanted) {
    bool found = false;
    for (const nn::Summary::Row& row : summary.rows) {
      if (row.name != name) continue;
      found = true;
      ASSERT_EQ(row.outputs.size(), 1u) << name;
      EXPECT_EQ(row.outputs[0], shape) << name;
    }
    EXPECT_TRUE(found) << name;
  }
}

// Returns the loss before and after a step.
template <class M>
void expect_step_helps(const std::string& what, M& model, const std::function<Tensor()>& loss,
                       double lr = 1e-3) {
  SCOPED_TRACE(what);
  optim::Adam optimizer(model.parameters(), {.lr = lr});
  const auto now = [&] {
    manual_seed(3);  // the same noise
    return loss();
  };
  const Tensor before = now();
  before.backward();
  for (const auto& [name, p] : model.named_parameters()) {
    EXPECT_TRUE(p.grad().defined()) << name;
  }
  optimizer.step();
  EXPECT_LT(now().item(), before.item());
}

Tensor images(const Shape& shape) {
  return sin(arange(shape.numel(), {.device = test_device()}) * 0.37f).reshape(shape);
}

TEST(Models, ResNetsHaveTorchvisionsLayout) {
  const std::uint64_t launches = counters().launches;
  models::ResNet r18 = models::resnet18(), r34 = models::resnet34(), r50 = models::resnet50(),
                 r101 = models::resnet101();
  expect_layout("resnet18", r18, 122, 11689512,
                {{"conv1.weight", {64, 3, 7, 7}},
                 {"layer2.0.downsample.1.running_mean", {128}},
                 {"layer4.1.conv2.weight", {512, 512, 3, 3}},
                 {"fc.weight", {1000, 512}}});
  expect_layout("resnet34", r34, 218, 21797672,
                {{"layer1.2.bn2.num_batches_tracked", {}},
                 {"layer3.5.conv2.weight", {256, 256, 3, 3}},
                 {"fc.bias", {1000}}});
  expect_layout("resnet50", r50, 320, 25557032,
                {{"bn1.weight", {64}},
                 {"layer1.0.conv1.weight", {64, 64, 1, 1}},
                 {"layer1.0.downsample.0.weight", {256, 64, 1, 1}},
                 {"layer1.0.bn3.running_var", {256}},
                 {"layer2.0.conv2.weight", {128, 128, 3, 3}},
                 {"layer3.5.conv3.weight", {1024, 256, 1, 1}},
                 {"layer4.0.downsample.0.weight", {2048, 1024, 1, 1}},
                 {"layer4.2.conv3.weight", {2048, 512, 1, 1}},
                 {"fc.weight", {1000, 2048}}});
  expect_layout("resnet101", r101, 626, 44549160, {{"layer3.22.conv1.weight", {256, 1024, 1, 1}}});
  EXPECT_FALSE(r50.state_dict().contains("layer1.1.downsample.0.weight"));
  expect_outputs(r50, {2, 3, 224, 224},
                 {{"layer1.0.conv1", {2, 64, 56, 56}},
                  {"layer1", {2, 256, 56, 56}},
                  {"layer2.0.conv1", {2, 128, 56, 56}},  // the second convolution has the stride
                  {"layer2.0.conv2", {2, 128, 28, 28}},
                  {"layer4", {2, 2048, 7, 7}},
                  {"", {2, 1000}}});
  EXPECT_EQ(counters().launches, launches) << "nothing is computed";
}

TEST(Models, VggsHaveTorchvisionsLayout) {
  const std::uint64_t launches = counters().launches;
  models::VGG v11(11), v16(16), normed(16, {.batch_norm = true});
  expect_layout("vgg11", v11, 22, 132863336,
                {{"features.0.weight", {64, 3, 3, 3}},
                 {"features.18.weight", {512, 512, 3, 3}},
                 {"classifier.0.weight", {4096, 25088}}});
  expect_layout("vgg16", v16, 32, 138357544,
                {{"features.7.weight", {128, 128, 3, 3}},
                 {"features.28.weight", {512, 512, 3, 3}},
                 {"classifier.3.weight", {4096, 4096}},
                 {"classifier.6.bias", {1000}}});
  expect_layout("vgg16_bn", normed, 97, 138365992,
                {{"features.40.weight", {512, 512, 3, 3}}, {"features.41.running_mean", {512}}});
  expect_outputs(v16, {1, 3, 224, 224},
                 {{"features.0", {1, 64, 224, 224}},
                  {"features", {1, 512, 7, 7}},
                  {"classifier", {1, 1000}},
                  {"", {1, 1000}}});
  EXPECT_EQ(counters().launches, launches) << "nothing is computed";
}

TEST(Models, SmallOnesHaveTheirShapes) {
  models::MLP mlp({784, 256, 10});
  expect_layout("mlp", mlp, 4, 784 * 256 + 256 + 256 * 10 + 10,
                {{"layers.0.weight", {256, 784}}, {"layers.2.bias", {10}}});
  expect_outputs(mlp, {5, 28, 28}, {{"", {5, 10}}});

  models::VAE vae(784);
  expect_layout("vae", vae, 10,
                784 * 400 + 400 + 2 * (400 * 20 + 20) + 20 * 400 + 400 + 400 * 784 + 784,
                {{"fc1.weight", {400, 784}},
                 {"fc21.bias", {20}},
                 {"fc22.weight", {20, 400}},
                 {"fc4.weight", {784, 400}}});
  EXPECT_EQ(vae.sample(3).shape(), (Shape{3, 784}));
  EXPECT_EQ(vae(zeros({2, 28, 28})).code.logvar.shape(), (Shape{2, 20}));

  models::ESPCN espcn(3);
  expect_layout("espcn", espcn, 8,
                64 * 25 + 64 + 64 * 64 * 9 + 64 + 64 * 32 * 9 + 32 + 32 * 9 * 9 + 9,
                {{"conv1.weight", {64, 1, 5, 5}}, {"conv4.weight", {9, 32, 3, 3}}});
  expect_outputs(espcn, {2, 1, 17, 11}, {{"conv3", {2, 32, 17, 11}}, {"", {2, 1, 51, 33}}});

  // The layout of PyTorch's example for images of 64x64.
  const models::DCGANOptions colour{.channels = 3, .size = 64};
  models::DCGANGenerator generator(colour);
  models::DCGANDiscriminator discriminator(colour);
  expect_layout("generator", generator, 5 + 4 * 5, 3576704,
                {{"main.0.weight", {100, 512, 4, 4}},
                 {"main.1.running_var", {512}},
                 {"main.9.weight", {128, 64, 4, 4}},
                 {"main.12.weight", {64, 3, 4, 4}}});
  expect_layout("discriminator", discriminator, 5 + 3 * 5, 2765568,
                {{"main.0.weight", {64, 3, 4, 4}},
                 {"main.9.weight", {512}},
                 {"main.11.weight", {1, 512, 4, 4}}});
  expect_outputs(generator, {4, 100}, {{"main.0", {4, 512, 4, 4}}, {"", {4, 3, 64, 64}}});
  expect_outputs(discriminator, {4, 3, 64, 64}, {{"main.8", {4, 512, 4, 4}}, {"", {4}}});
  models::DCGANGenerator digits;
  expect_outputs(digits, {2, 100}, {{"", {2, 1, 28, 28}}});
}

TEST(Models, AStepReducesTheLoss) {
  manual_seed(1);
  const TensorOptions here{.device = test_device()};
  const Tensor labels = tensor({0, 1, 2, 1}, {4}, {.dtype = DType::i64, .device = test_device()});

  const Tensor rows = images({4, 6});
  models::MLP mlp({6, 16, 3}, {.device = test_device()});
  expect_step_helps("mlp", mlp, [&] { return cross_entropy(mlp(rows), labels); });

  const Tensor shades = rows.sigmoid();
  models::VAE vae(6, {.hidden = 16, .latent = 2, .device = test_device()});
  expect_step_helps("vae", vae, [&] { return models::vae_loss(vae(shades), shades); });

  const Tensor coarse = images({2, 1, 6, 5}), fine = images({2, 1, 12, 10});
  models::ESPCN espcn(2, {.device = test_device()});
  expect_step_helps("espcn", espcn, [&] { return mse_loss(espcn(coarse), fine); }, 1e-4);

  const models::DCGANOptions tiny{.latent = 5, .features = 4, .size = 16, .device = test_device()};
  models::DCGANGenerator generator(tiny);
  models::DCGANDiscriminator discriminator(tiny);
  const Tensor real = images({4, 1, 16, 16}), noise = images({4, 5});
  const auto judged = [&](const Tensor& x, double as) {
    return binary_cross_entropy_with_logits(discriminator(x), full({4}, as, here));
  };
  const Tensor fake = generator(noise).detach();
  expect_step_helps("discriminator", discriminator,
                    [&] { return judged(real, 1) + judged(fake, 0); });
  expect_step_helps("generator", generator, [&] { return judged(generator(noise), 1); });

  const Tensor pictures = images({4, 3, 16, 16});
  models::ResNet bottlenecks(
      models::ResNet::Block::bottleneck, {1, 1, 1, 1},
      {.classes = 3, .width = 4, .small_images = true, .device = test_device()});
  expect_step_helps("bottlenecks", bottlenecks,
                    [&] { return cross_entropy(bottlenecks(pictures), labels); });
}

TEST(Models, SmallVggLearns) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "its parts are compared on every device elsewhere";
  manual_seed(1);
  models::VGG vgg(11, {.classes = 3, .batch_norm = true, .small_images = true});
  const Tensor x = images({2, 3, 32, 32});
  const Tensor labels = tensor({0, 2}, {2}, {.dtype = DType::i64});
  EXPECT_EQ(vgg.state_dict().at("classifier.0.weight").shape(), (Shape{3, 512}));
  expect_step_helps("vgg11", vgg, [&] { return cross_entropy(vgg(x), labels); }, 1e-4);
}

// ---- Transfer learning: a new head on an existing model.

TEST(TransferLearning, ResNetTakesAnotherHead) {
  models::ResNet full_size = models::resnet18();
  full_size.replace("fc", full_size.fc, nn::Linear(512, 10));
  expect_layout("resnet18 of ten classes", full_size, 122, 11689512 - 990 * 513,
                {{"fc.weight", {10, 512}}, {"fc.bias", {10}}});
  expect_outputs(full_size, {2, 3, 224, 224}, {{"", {2, 10}}});

  manual_seed(1);
  models::ResNet model =
      models::resnet18({.classes = 7, .width = 4, .small_images = true, .device = test_device()});
  model.requires_grad(false);
  model.replace("fc", model.fc, nn::Linear(32, 3, {.device = test_device()}));
  const Tensor x = images({4, 3, 16, 16});
  const Tensor labels = tensor({0, 1, 2, 1}, {4}, {.dtype = DType::i64, .device = test_device()});
  // The optimizer gets all parameters and skips the frozen ones.
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::vector<std::pair<std::string, std::vector<float>>> before;
  for (const auto& [name, p] : model.named_parameters()) {
    before.emplace_back(name, p.to_vector<float>());
  }
  double first = 0, last = 0;
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), labels);
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  EXPECT_LT(last, first);
  std::size_t at = 0;
  for (const auto& [name, p] : model.named_parameters()) {
    EXPECT_EQ(p.to_vector<float>() == before[at++].second, !name.starts_with("fc.")) << name;
  }
}

TEST(TransferLearning, SequentialTakesAnotherElement) {
  models::VGG vgg(11);
  vgg.classifier.replace(6, nn::Linear(4096, 10));
  expect_layout("vgg11 of ten classes", vgg, 22, 132863336 - 990 * 4097,
                {{"classifier.6.weight", {10, 4096}}});
  expect_outputs(vgg, {1, 3, 224, 224}, {{"", {1, 10}}});

  nn::Sequential model({{"body", nn::Linear(3, 4)}, {"head", nn::Linear(4, 5)}});
  nn::Sequential handle = model;
  model.replace(1, nn::Sequential({nn::ReLU(), nn::Linear(4, 2)}));
  EXPECT_EQ(handle(ones({1, 3})).shape(), (Shape{1, 2}));
  EXPECT_EQ(handle.named_parameters()[2].first, "head.1.weight");
  EXPECT_EQ(handle[1].kind(), "Sequential");
  // The replacement may be of the user's own class, and clones are complete.
  const nn::Sequential copy = nn::clone(model);
  EXPECT_EQ(copy.state_dict().size(), 4u);
  try {
    model.replace(2, nn::ReLU());
    FAIL() << "there is no third module";
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "Sequential: there is no module 2 among 2");
  }
  EXPECT_THROW(model.replace(0, model), ArgumentError) << "it would contain itself";
}

}  // namespace
}  // namespace volta
