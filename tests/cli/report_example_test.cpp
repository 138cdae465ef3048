// The report of a real run: a network that reads digits, trained here. With
// VOLTA_REPORT_EXAMPLE=folder it trains longer and leaves the page in that folder, for the browser
// test and for the pictures.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "report/report.h"
#include "volta/data.h"
#include "volta/models.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%d %B %Y, %H:%M UTC", &parts);
  return text;
}

struct Judgement {
  double loss = 0;
  double accuracy = 0;  // %
  report::Confusion confusion;
};

Judgement judged(nn::Module& model, data::DataLoader& loader) {
  Judgement out;
  for (int digit = 0; digit < 10; ++digit) out.confusion.labels.push_back(std::to_string(digit));
  out.confusion.counts.assign(100, 0);
  const NoGrad no_grad;
  model.eval();
  std::int64_t seen = 0, right = 0;
  for (const auto& [x, y] : loader) {
    const Tensor logits = model(x);
    out.loss += cross_entropy(logits, y).item<double>() * static_cast<double>(y.numel());
    const auto predicted = logits.argmax(1).to_vector<std::int64_t>();
    const auto wanted = y.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ++out.confusion.counts[static_cast<std::size_t>(10 * wanted[i] + predicted[i])];
      right += wanted[i] == predicted[i] ? 1 : 0;
    }
    seen += y.numel();
  }
  model.train();
  out.loss /= static_cast<double>(seen);
  out.accuracy = 100.0 * static_cast<double>(right) / static_cast<double>(seen);
  return out;
}

// Returns at most `wrong` misclassified samples, followed by correct ones.
std::vector<report::ImageSample> samples_of(nn::Module& model, const data::ImageDataset& images,
                                            std::size_t count, std::size_t wrong) {
  const NoGrad no_grad;
  model.eval();
  std::vector<report::ImageSample> mistakes, others;
  data::DataLoader loader(images, {.batch_size = 250});
  std::size_t index = 0;
  for (const auto& [x, y] : loader) {
    const Tensor shares = model(x).softmax(1);
    const auto predicted = shares.argmax(1).to_vector<std::int64_t>();
    const auto all = shares.to_vector<float>();
    for (std::size_t i = 0; i < predicted.size(); ++i, ++index) {
      const std::span<const std::uint8_t> pixels =
          images.pixels().subspan(28 * 28 * index, 28 * 28);
      report::ImageSample sample{
          .width = 28,
          .height = 28,
          .channels = 1,
          .pixels = {pixels.begin(), pixels.end()},
          .label = std::to_string(images.labels()[index]),
          .predicted = std::to_string(predicted[i]),
          .confidence = all[10 * i + static_cast<std::size_t>(predicted[i])]};
      (sample.label == sample.predicted ? others : mistakes).push_back(std::move(sample));
    }
  }
  mistakes.resize(std::min(mistakes.size(), wrong));
  for (std::size_t i = 0; mistakes.size() < count && i < others.size(); ++i)
    mistakes.push_back(others[i]);
  return mistakes;
}

struct Length {
  std::int64_t images = 0;
  int epochs = 0;
};

report::ReportData trained(Length length) {
  const Device device = Device::cpu();
  manual_seed(7);
  const auto train_images = data::digits(data::Split::train, {.count = length.images});
  const auto test_images = data::digits(data::Split::test, {.count = length.images / 4});
  data::DataLoader train(train_images, {.batch_size = 64, .shuffle = true});
  data::DataLoader test(test_images, {.batch_size = 250});
  models::LeNet model;
  optim::AdamW opt(model.parameters(), {.lr = 1e-3, .weight_decay = 0.01});
  const std::int64_t steps = length.epochs * train.size();
  optim::OneCycleLR schedule(opt, {.max_lr = 4e-3, .total_steps = steps});

  report::ReportData data;
  report::Series loss{.name = "training"}, test_loss{.name = "test"}, accuracy{.name = "test"};
  report::Series rate{.name = "learning rate"}, speed{.name = "samples/s"},
      waiting{.name = "waiting"}, memory{.name = "in use"};
  const auto add = [](report::Series& series, std::int64_t step, double value) {
    series.x.push_back(static_cast<double>(step));
    series.y.push_back(value);
  };
  std::int64_t step = 0;
  double seconds = 0;
  const auto judge = [&] {
    const Judgement now = judged(model, test);
    add(test_loss, step, now.loss);
    add(accuracy, step, now.accuracy);
    if (!data.totals.best || now.accuracy > data.totals.best->value)
      data.totals.best = {"test accuracy", now.accuracy, "%", step};
    data.confusion = now.confusion;
  };
  judge();
  for (int epoch = 0; epoch < length.epochs; ++epoch) {
    const std::int64_t half = train.size() / 2;
    auto before = Clock::now();
    for (const auto& [x, y] : train) {
      const double wait = since(before);
      opt.zero_grad();
      const Tensor value = cross_entropy(model(x), y);
      value.backward();
      if (step == 0) {
        std::vector<Tensor> results = {value};
        for (const Tensor& parameter : model.parameters()) results.push_back(parameter.grad());
        data.plan = explain(results);
      }
      opt.step();
      schedule.step();
      const double now = value.item<double>();
      const double took = since(before);
      ++step;
      seconds += took;
      add(loss, step, now);
      add(rate, step, opt.lr());
      add(speed, step, static_cast<double>(y.numel()) / took);
      add(waiting, step, 100 * wait / took);
      add(memory, step, static_cast<double>(memory_stats(device).in_use));
      if (step % train.size() == half) judge();
      before = Clock::now();
    }
    judge();
  }
  for (report::Series* series : {&loss, &speed, &waiting})
    series->smoothed = report::smooth(series->y, 0.95);

  data.title = "Digits, convolutional network";
  data.recipe = "digits-cnn";
  data.command_line = "volta train digits-cnn --epochs " + std::to_string(length.epochs);
  data.device = "cpu (" + device.name() + ")";
  data.version = version();
  data.date = today();
  data.totals.steps = step;
  data.totals.epochs = length.epochs;
  data.totals.seconds = seconds;
  data.totals.samples_per_second = static_cast<double>(length.images * length.epochs) / seconds;
  data.config = {{"batch", "64"},
                 {"data", std::to_string(length.images) + " drawn digits"},
                 {"epochs", std::to_string(length.epochs)},
                 {"lr", "4e-3, one cycle"},
                 {"optimizer", "AdamW, weight decay 0.01"},
                 {"seed", "7"}};
  data.charts = {{.title = "Loss",
                  .unit = "nats",
                  .series = {loss, test_loss},
                  .offer_log = true,
                  .from_zero = false},
                 {.title = "Accuracy", .unit = "%", .series = {accuracy}, .from_zero = false},
                 {.title = "Learning rate", .series = {rate}, .minor = true},
                 {.title = "Throughput", .unit = "samples/s", .series = {speed}, .minor = true},
                 {.title = "Waiting for data", .unit = "%", .series = {waiting}, .minor = true},
                 {.title = "Device memory", .unit = "B", .series = {memory}, .minor = true}};
  data.images = samples_of(model, test_images, 24, 8);
  data.model = model.summary({1, 1, 28, 28});
  const auto saved = std::filesystem::temp_directory_path() / "volta_report_example.safetensors";
  save(model.state_dict(), saved.string());
  data.files = {
      {"last.safetensors", std::filesystem::file_size(saved), "the model after the last step"}};
  std::filesystem::remove(saved);
  data.commands = {{"Resume", "volta train digits-cnn --resume runs/digits-cnn"},
                   {"Evaluate", "volta eval runs/digits-cnn"}};
  return data;
}

TEST(ReportExample, TellsOfARealRun) {
  const char* folder = std::getenv("VOLTA_REPORT_EXAMPLE");
  const report::ReportData data = trained(folder ? Length{12'000, 4} : Length{1'280, 1});
  const std::string page = report::render(data);
  EXPECT_LT(page.size(), 1'000'000u);
  EXPECT_EQ(data.images.size(), 24u);
  std::size_t images = 0;
  for (std::size_t at = page.find("data:image/png"); at != std::string::npos;
       at = page.find("data:image/png", at + 1))
    ++images;
  EXPECT_EQ(images, 24u);
  for (const char* part : {"conv1", "Conv2d", "Linear", "convolution", "matmul", "61,706"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const StepInfo& step : data.plan.steps)
    EXPECT_NE(page.find(step.schedule), std::string::npos);
  // The model has learned something: the report of an untrained one would pass the other checks.
  EXPECT_GT(data.totals.best->value, folder ? 97 : 30);
  if (folder) {
    std::filesystem::create_directories(folder);
    std::ofstream out(std::filesystem::path(folder) / "example.html", std::ios::binary);
    out << page;
    ASSERT_TRUE(out.flush().good()) << folder;
  }
}

}  // namespace
}  // namespace volta
