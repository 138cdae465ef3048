// Recipes: the models that `volta train` can train. A recipe is a table of settings and a function
// that makes a task, which is a model with its data. trainer.cpp trains tasks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "report/report_data.h"
#include "text_model.h"
#include "train/settings.h"
#include "volta/volta.h"

namespace volta::cli {

struct EvaluateOptions {
  bool samples = false;    // also collects the report's mistakes, images and text
  std::int64_t batch = 0;  // examples at a time; 0 for the task's default
};

// The result on held-out data. The first metric decides which checkpoint is the best.
struct Evaluation {
  std::vector<report::Metric> metrics;
  bool larger_is_better = true;
  std::optional<report::Confusion> confusion = std::nullopt;
  std::vector<report::ImageSample> images = {};
  std::vector<report::TextSample> texts = {};
};

class Task {
 public:
  virtual ~Task() = default;
  virtual nn::Module& model() = 0;
  virtual data::DataLoader& loader() = 0;
  virtual Tensor loss(const data::Batch& batch) = 0;
  virtual Evaluation evaluate(const EvaluateOptions& options) = 0;
  virtual nn::Summary summary() = 0;
  virtual const char* unit() const { return "images"; }  // the unit that is counted
  virtual std::int64_t units(const data::Batch& batch) const { return batch.x.size(0); }
  // Further entries of the run's configuration: all that Recipe::text needs, and that Recipe::make
  // needs to fit other data to the model.
  virtual Json details() const { return Json::object(); }
};

// Upper limits of settings for the size of a model, of a batch, and of the training.
inline constexpr double kMaxBatch = 1 << 20, kMaxLength = 1 << 20, kMaxWidth = 1 << 16,
                        kMaxLayers = 1000, kMaxUpdates = 1e9;

struct Recipe {
  std::string name;
  std::string what;
  std::vector<Setting> settings;  // in addition to those of every recipe
  std::function<std::unique_ptr<Task>(const Settings&, const Json& config, Device)> task;
  // For recipes that generate text: makes the model without data from the run's configuration. Its
  // weights are loaded later.
  std::function<TextModel(const Settings&, const Json& config, Device)> text = {};

  // Makes the task of a new run, or one that fits the configuration of an existing run.
  std::unique_ptr<Task> make(const Settings& settings, Device device,
                             const Json& config = Json::object()) const {
    return task(settings, config, device);
  }
  Settings all_settings() const;  // common settings first: data, epochs, steps, batch, lr, ...
};

// Adds settings. A setting with an existing name replaces it, with another default.
void merge(std::vector<Setting>& settings, const std::vector<Setting>& more);

const std::vector<Recipe>& recipes();
const Recipe& find_recipe(const std::string& name);  // throws UsageError with the nearest name

// Defined in recipes_images.cpp and recipes_text.cpp.
std::vector<Recipe> image_recipes();
std::vector<Recipe> text_recipes();

}  // namespace volta::cli
