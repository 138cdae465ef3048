// The layout of help: purpose, usage, arguments and options, examples.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "output/terminal.h"

namespace volta::cli {

class HelpFormatter : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(const Terminal& terminal) : terminal_(terminal) {}
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

 private:
  Terminal terminal_;
};

}  // namespace volta::cli
