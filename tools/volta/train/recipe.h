// Recipes: what `volta train` can train. A recipe is a table of settings and a function that makes
// a task: a model with its data. How tasks are trained is trainer.cpp's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/report_data.h"
#include "command.h"
#include "text_model.h"
#include "train/settings.h"
#include "volta/volta.h"

namespace volta::cli {

struct EvaluateOptions {
  bool samples = false;    // also what the report shows: mistakes, images, text
  std::int64_t batch = 0;  // examples at a time; 0: the task's own choice
};

// What a look at the held-out data gave. The first metric decides which checkpoint is the best.
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
  virtual const char* unit() const { return "images"; }  // of what is counted
  virtual std::int64_t units(const data::Batch& batch) const { return batch.x.size(0); }
  // What the run's configuration keeps besides the settings: all that Recipe::text needs, and
  // Recipe::make to fit other data to the model.
  virtual Json details() const { return Json::object(); }
};

// The largest settings: of a model's size, and of what is computed at a time.
inline constexpr double kMaxBatch = 1 << 20, kMaxLength = 1 << 20, kMaxWidth = 1 << 16,
                        kMaxLayers = 1000;

struct Recipe {
  std::string name;
  std::string what;
  std::vector<Setting> settings;  // besides those that every recipe has
  std::function<std::unique_ptr<Task>(const Settings&, const Json& config, Device)> task;
  // Of recipes that make text: the model without the data, its weights yet to be loaded. Takes the
  // run's configuration.
  std::function<TextModel(const Settings&, const Json& config, Device)> text = {};

  // The task: of a new run, or one that fits the configuration of a run that there is.
  std::unique_ptr<Task> make(const Settings& settings, Device device,
                             const Json& config = Json::object()) const {
    return task(settings, config, device);
  }
  Settings all_settings() const;  // the common ones first: data, epochs, steps, batch, lr, ...
};

// Adds settings; one of a name that is there takes its place, with another default.
void merge(std::vector<Setting>& settings, const std::vector<Setting>& more);

const std::vector<Recipe>& recipes();
const Recipe& find_recipe(const std::string& name);  // throws UsageError, suggesting the nearest

// Those of recipes_images.cpp and recipes_text.cpp.
std::vector<Recipe> image_recipes();
std::vector<Recipe> text_recipes();

}  // namespace volta::cli
