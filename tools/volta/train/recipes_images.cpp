// Recipes for image classification.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "command.h"
#include "train/recipe.h"
#include "volta/models.h"

namespace volta::cli {
namespace {

struct Images {
  data::ImageDataset train, test;
  std::vector<std::string> labels;
  data::Transform augment = {};  // applied to training batches
};

// A network with one logit per class.
class Classification : public Task {
 public:
  Classification(nn::Sequential network, Images images, const Settings& settings, Device device)
      : network_(std::move(network)),
        images_(std::move(images)),
        device_(device),
        loader_(images_.train, {.batch_size = settings.integer("batch"),
                                .shuffle = true,
                                .drop_last = images_.train.size() >= settings.integer("batch"),
                                .workers = static_cast<int>(settings.integer("workers")),
                                .device = device,
                                .seed = static_cast<std::uint64_t>(settings.integer("seed")),
                                .transform = images_.augment}) {
    network_.to(device);
  }

  nn::Module& model() override { return network_; }
  data::DataLoader& loader() override { return loader_; }
  Tensor loss(const data::Batch& batch) override {
    return cross_entropy(network_(batch.x), batch.y);
  }

  Evaluation evaluate(const EvaluateOptions& options) override {
    const std::size_t classes = images_.labels.size();
    report::Confusion confusion{images_.labels, std::vector<std::uint64_t>(classes * classes)};
    NoGrad no_grad;
    network_.eval();
    data::DataLoader checks(
        images_.test, {.batch_size = options.batch > 0 ? options.batch : 250, .device = device_});
    double loss = 0;
    std::int64_t right = 0, seen = 0;
    std::vector<report::ImageSample> wrong, good;
    for (const auto& [x, y] : checks) {
      const Tensor logits = network_(x);
      const Tensor summed = cross_entropy(logits, y, {.reduction = Reduction::sum});
      const Tensor shares = logits.softmax(1);
      const Tensor best = shares.max(1), guess = shares.argmax(1);
      loss += summed.item();
      const auto actual = y.to_vector<std::int64_t>(), guesses = guess.to_vector<std::int64_t>();
      const auto confidence = best.to_vector<float>();
      for (std::size_t i = 0; i < actual.size(); ++i) {
        ++confusion.counts[static_cast<std::size_t>(actual[i]) * classes +
                           static_cast<std::size_t>(guesses[i])];
        right += actual[i] == guesses[i] ? 1 : 0;
        std::vector<report::ImageSample>& kept = actual[i] == guesses[i] ? good : wrong;
        if (options.samples && kept.size() < (actual[i] == guesses[i] ? 12u : 24u))
          kept.push_back(sample(seen + static_cast<std::int64_t>(i), actual[i], guesses[i],
                                static_cast<double>(confidence[i])));
      }
      seen += static_cast<std::int64_t>(actual.size());
    }
    network_.train();
    Evaluation result;
    result.metrics = {
        {"test accuracy",
         100.0 * static_cast<double>(right) / static_cast<double>(std::max<std::int64_t>(seen, 1)),
         "%"},
        {"test loss", loss / static_cast<double>(std::max<std::int64_t>(seen, 1))}};
    result.confusion = std::move(confusion);
    if (options.samples) {
      result.images = std::move(wrong);
      std::move(good.begin(), good.end(), std::back_inserter(result.images));
    }
    return result;
  }

  nn::Summary summary() override {
    const Shape image = images_.test.layout()->x.shape;
    return network_.summary({1, image[0], image[1], image[2]});
  }

 private:
  report::ImageSample sample(std::int64_t index, std::int64_t actual, std::int64_t guess,
                             double confidence) const {
    const Shape image = images_.test.layout()->x.shape;  // channels, height, width
    const auto channels = static_cast<std::size_t>(image[0]),
               area = static_cast<std::size_t>(image[1] * image[2]);
    const std::uint8_t* bytes =
        images_.test.pixels().data() + static_cast<std::size_t>(index) * channels * area;
    std::vector<std::uint8_t> pixels(channels * area);
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t p = 0; p < area; ++p) pixels[p * channels + c] = bytes[c * area + p];
    }
    return {.width = static_cast<std::uint32_t>(image[2]),
            .height = static_cast<std::uint32_t>(image[1]),
            .channels = static_cast<int>(channels),
            .pixels = std::move(pixels),
            .label = images_.labels[static_cast<std::size_t>(actual)],
            .predicted = images_.labels[static_cast<std::size_t>(guess)],
            .confidence = confidence};
  }

  nn::Sequential network_;
  Images images_;
  Device device_;
  data::DataLoader loader_;
};

std::vector<std::string> digit_names() {
  std::vector<std::string> names;
  for (int digit = 0; digit < 10; ++digit) names.push_back(std::to_string(digit));
  return names;
}

// Generated digits, or MNIST's files.
Images digits(const Settings& settings) {
  const std::string& folder = settings.text("data");
  if (!folder.empty()) {
    return {data::mnist(folder, data::Split::train), data::mnist(folder, data::Split::test),
            digit_names()};
  }
  const std::int64_t count = settings.integer("count");
  return {data::digits(data::Split::train, {.count = count}),
          data::digits(data::Split::test, {.count = std::max<std::int64_t>(count / 6, 10)}),
          digit_names()};
}

nn::Sequential digits_network() {
  return nn::Sequential({{"conv1", nn::Conv2d(1, 32, 3, {.padding = 1})},
                         {"relu1", nn::ReLU()},
                         {"pool1", nn::MaxPool2d(2)},
                         {"conv2", nn::Conv2d(32, 64, 3, {.padding = 1, .bias = false})},
                         {"norm", nn::BatchNorm2d(64)},
                         {"relu2", nn::ReLU()},
                         {"pool2", nn::MaxPool2d(2)},
                         {"flatten", nn::Flatten()},
                         {"fc1", nn::Linear(64 * 7 * 7, 128)},
                         {"relu3", nn::ReLU()},
                         {"drop", nn::Dropout(0.25)},
                         {"fc2", nn::Linear(128, 10)}});
}

nn::Sequential digits_mlp(std::int64_t width) {
  return nn::Sequential({{"flatten", nn::Flatten()},
                         {"fc1", nn::Linear(28 * 28, width)},
                         {"relu1", nn::ReLU()},
                         {"fc2", nn::Linear(width, width)},
                         {"relu2", nn::ReLU()},
                         {"fc3", nn::Linear(width, 10)}});
}

Images cifar(const Settings& settings) {
  const std::string& folder = settings.text("data");
  if (folder.empty()) {
    throw UsageError(
        "resnet18-cifar needs --data with the folder of CIFAR-10's binary files "
        "(cifar-10-batches-bin)");
  }
  return {
      data::cifar10(folder, data::Split::train),
      data::cifar10(folder, data::Split::test),
      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"},
      data::compose({data::random_crop(32, 32, {.padding = 4}), data::random_horizontal_flip()})};
}

const Setting kCount{"count", Setting::Kind::integer,
                     "60000", "digits that are drawn, a sixth more to test; without data",
                     10,      10'000'000};

}  // namespace

std::vector<Recipe> image_recipes() {
  using enum Setting::Kind;
  return {
      {"digits-cnn",
       "a convolutional network that reads digits: drawn ones, or MNIST's files",
       {kCount},
       [](const Settings& settings, const Json& /*config*/,
          Device device) -> std::unique_ptr<Task> {
         return std::make_unique<Classification>(digits_network(), digits(settings), settings,
                                                 device);
       }},
      {"mlp",
       "linear layers that read digits: drawn ones, or MNIST's files",
       {kCount, {"width", integer, "256", "of the hidden layers", 1, kMaxWidth}},
       [](const Settings& settings, const Json& /*config*/,
          Device device) -> std::unique_ptr<Task> {
         return std::make_unique<Classification>(digits_mlp(settings.integer("width")),
                                                 digits(settings), settings, device);
       }},
      {"resnet18-cifar",
       "ResNet-18 on CIFAR-10's binary files",
       {{"epochs", integer, "30", "passes over the data, unless steps says how many", 1,
         kMaxUpdates},
        {"batch", integer, "128", "examples of an update", 1, kMaxBatch},
        {"width", integer, "64", "channels of the first layer", 1, 4096}},
       [](const Settings& settings, const Json& /*config*/,
          Device device) -> std::unique_ptr<Task> {
         nn::Sequential network({{"resnet", models::resnet18({.classes = 10,
                                                              .width = settings.integer("width"),
                                                              .small_images = true})}});
         return std::make_unique<Classification>(std::move(network), cifar(settings), settings,
                                                 device);
       }},
  };
}

}  // namespace volta::cli
