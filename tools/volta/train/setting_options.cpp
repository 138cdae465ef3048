#include "train/setting_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "command.h"

namespace volta::cli {

void SettingOptions::add_to(CLI::App& command, const std::vector<std::string_view>& names) {
  const auto wanted = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto add = [&](const char* name, std::optional<std::string>& value, const char* what,
                       const char* kind = "N") {
    if (wanted(name)) command.add_option(std::string("--") + name, value, what)->type_name(kind);
  };
  add("data", data_, "A folder or file; else what Volta has built in", "PATH");
  add("epochs", epochs_, "Passes over the data");
  add("steps", steps_, "Updates, instead of epochs");
  add("batch", batch_, "Examples of an update");
  add("lr", lr_, "The highest learning rate");
  if (wanted("amp")) command.add_flag("--amp", amp_, "Products and convolutions in bf16");
  add("seed", seed_, "Of weights, order and dropout");
  command.add_option("--set", set_, "name=value; volta train --list names them; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

std::vector<std::pair<std::string, std::optional<std::string>>> SettingOptions::given() const {
  std::vector<std::pair<std::string, std::optional<std::string>>> words;
  for (const auto& [name, value] : {std::pair{"data", &data_},
                                    {"epochs", &epochs_},
                                    {"steps", &steps_},
                                    {"batch", &batch_},
                                    {"lr", &lr_},
                                    {"seed", &seed_}}) {
    if (*value) words.emplace_back(name, *value);
  }
  if (amp_) words.emplace_back("amp", std::nullopt);
  for (const std::string& one : set_) words.emplace_back("set", one);
  return words;
}

void SettingOptions::apply(Settings& settings) const {
  bool epochs = false, steps = false;
  for (const auto& [name, value] : given()) {
    if (name == "set") {
      settings.set(*value);
      epochs = epochs || value->starts_with("epochs=");
      steps = steps || value->starts_with("steps=");
    } else {
      settings.set(name, value.value_or("true"));
      epochs = epochs || name == "epochs";
      steps = steps || name == "steps";
    }
  }
  // The recipe or a resumed run may set steps, which would take precedence over epochs.
  if (epochs && !steps) settings.set("steps", "0");
  if (epochs && steps && settings.integer("steps") > 0) {
    throw UsageError(fmt::format("epochs={} and steps={} both say how long to train: give one",
                                 settings.text("epochs"), settings.text("steps")));
  }
}

}  // namespace volta::cli
