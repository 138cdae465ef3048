#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "command.h"
#include "output/nearest.h"
#include "train/recipe.h"

namespace volta::cli {

void merge(std::vector<Setting>& settings, const std::vector<Setting>& more) {
  for (const Setting& one : more) {
    const auto same = std::find_if(settings.begin(), settings.end(),
                                   [&](const Setting& known) { return known.name == one.name; });
    if (same == settings.end()) {
      settings.push_back(one);
    } else {
      *same = one;
    }
  }
}

Settings Recipe::all_settings() const {
  using enum Setting::Kind;
  std::vector<Setting> all = {
      {"data", text, "", "a folder or file; without one what Volta has built in"},
      {"epochs", integer, "5", "passes over the data, unless steps says how many", 1, kMaxUpdates},
      {"steps", integer, "0", "updates; 0: as many as the epochs have", 0, kMaxUpdates},
      {"batch", integer, "64", "examples of an update", 1, kMaxBatch},
      {"lr", number, "0.001", "the highest learning rate", 0},
      {"weight_decay", number, "0.01", "AdamW's", 0},
      {"warmup", integer, "100", "updates until the learning rate is at its highest", 0,
       kMaxUpdates},
      {"clip", number, "1", "the largest norm of all gradients; 0: any", 0},
      {"seed", integer, "1", "of weights, order and dropout", 0},
      {"amp", flag, "false", "products and convolutions in bf16"},
      {"workers", integer, "1", "threads that prepare batches", 0, 256},
      {"evaluate_every", integer, "0", "updates between evaluations; 0: after every epoch", 0,
       kMaxUpdates},
  };
  merge(all, settings);
  return Settings(std::move(all));
}

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = [] {
    std::vector<Recipe> list = image_recipes(), text = text_recipes();
    std::move(text.begin(), text.end(), std::back_inserter(list));
    return list;
  }();
  return all;
}

const Recipe& find_recipe(const std::string& name) {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) {
    if (recipe.name == name) return recipe;
    names.push_back(recipe.name);
  }
  std::string hint = suggestion(name, names);
  if (hint.empty()) hint = fmt::format("; there are {}", fmt::join(names, ", "));
  throw UsageError(fmt::format("there is no recipe '{}'{}", name, hint));
}

}  // namespace volta::cli
