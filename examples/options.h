// The command line of the examples: --name value pairs, and the device.
#pragma once

#include <volta/volta.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

// The options by name, and `device`, which is --device or the best device present.
class Options {
 public:
  // `defaults` has all options with their defaults. For any other option, prints them and exits.
  Options(int argc, char** argv, std::map<std::string, std::string> defaults)
      : values_(std::move(defaults)) {
    values_.emplace("device", "best");
    for (int i = 1; i < argc; i += 2) {
      const std::string name = argv[i];
      const auto found = name.starts_with("--") ? values_.find(name.substr(2)) : values_.end();
      if (found == values_.end() || i + 1 == argc) usage(argv[0]);
      found->second = argv[i + 1];
    }
  }

  std::string text(const std::string& name) const { return values_.at(name); }
  int number(const std::string& name) const { return std::atoi(values_.at(name).c_str()); }
  volta::Device device() const { return volta::Device::parse(values_.at("device")); }

 private:
  [[noreturn]] void usage(const char* program) const {
    std::fprintf(stderr, "usage: %s", program);
    for (const auto& [name, value] : values_) {
      std::fprintf(stderr, " [--%s %s]", name.c_str(), value.empty() ? "..." : value.c_str());
    }
    std::fputc('\n', stderr);
    std::exit(2);
  }

  std::map<std::string, std::string> values_;
};
