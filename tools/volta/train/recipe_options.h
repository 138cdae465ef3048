// The options and output of commands that examine the training of one recipe: volta explain and
// volta profile.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "command.h"
#include "train/recipe.h"
#include "train/setting_options.h"
#include "train/settings.h"
#include "volta/device.h"

namespace volta::cli {

struct RecipeOptions {
  std::string recipe = "digits-cnn", device = "best";
  SettingOptions settings;

  // Adds RECIPE or --device to the command. This object must outlive the command.
  void add_recipe(CLI::App& command);
  void add_device(CLI::App& command);
};

// The recipe, settings and device that the options name.
struct ChosenRecipe {
  // Throws for unknown names and invalid settings.
  explicit ChosenRecipe(const RecipeOptions& options);

  Json json() const;  // the beginning of a document: recipe, device
  // "digits-cnn: a training step on cuda:0 (NVIDIA H200)", for `what` = "a training step".
  void print_heading(const Context& context, const std::string& what) const;

  const Recipe& recipe;
  Settings settings;
  Device device;
};

}  // namespace volta::cli
