#include "train/recipe_options.h"

#include <fmt/format.h>

#include "output/terminal.h"

namespace volta::cli {
namespace {

Settings changed(Settings settings, const SettingOptions& options) {
  options.apply(settings);
  return settings;
}

}  // namespace

void RecipeOptions::add_recipe(CLI::App& command) {
  command.add_option("RECIPE", recipe, "As of volta train --list; default digits-cnn");
}

void RecipeOptions::add_device(CLI::App& command) {
  command.add_option("--device", device, "cpu, cuda:0, opencl:0, best");
}

ChosenRecipe::ChosenRecipe(const RecipeOptions& options)
    : recipe(find_recipe(options.recipe)),
      settings(changed(recipe.all_settings(), options.settings)),
      device(Device::parse(options.device)) {}

Json ChosenRecipe::json() const { return {{"recipe", recipe.name}, {"device", to_string(device)}}; }

void ChosenRecipe::print_heading(const Context& context, const std::string& what) const {
  const std::string heading =
      fmt::format("{}: {} on {} ({})", recipe.name, what, to_string(device), device.name());
  context.out << wrapped(printable(heading, context.terminal), context.terminal.columns, 2) << '\n';
}

}  // namespace volta::cli
