// Small runs of volta train, and the contents of their folders.
#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli_program.h"

namespace volta::cli {

class Runs : public Program {
 protected:
  // Options for a run that takes a second.
  std::vector<std::string> small(const std::string& out,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"train", "mlp",     "--device", "cpu",   "--lr",
                                      "0.01",  "--batch", "32",       "--out", path(out)};
    for (const char* setting : {"count=960", "width=16", "workers=0", "warmup=10", "epochs=4"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Options for a run that learns a little from a text, with windows of 24 characters.
  std::vector<std::string> text_run(const std::string& recipe, const std::string& out,
                                    const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"train", recipe,    "--device", "cpu",   "--steps",
                                      "20",    "--batch", "4",        "--out", path(out)};
    std::vector<std::string> settings = {"length=24", "width=24", "layers=1", "workers=0"};
    if (recipe == "char-gpt") settings.emplace_back("heads=2");
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<nlohmann::json> metrics(const std::string& run) const {
    std::vector<nlohmann::json> all;
    for (const std::string& line : lines_of(read(run + "/metrics.jsonl")))
      if (!line.empty()) all.push_back(nlohmann::json::parse(line));
    return all;
  }
  // Returns the lines of evaluations, which have this metric.
  std::vector<nlohmann::json> evaluations(const std::string& run, const char* metric) const {
    std::vector<nlohmann::json> some;
    for (const nlohmann::json& line : metrics(run))
      if (line.contains(metric)) some.push_back(line);
    return some;
  }
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace volta::cli
