// Datasets and readers of epochs for the tests of loaders.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "volta/data.h"
#include "volta/volta.h"

namespace volta::data_testing {

// Example i is x = {i, i + 0.5} and y = i.
inline data::TensorDataset numbered(std::int64_t count) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < count; ++i) {
    x.push_back(static_cast<float>(i));
    x.push_back(static_cast<float>(i) + 0.5f);
    y.push_back(i);
  }
  return data::TensorDataset(from_vector(x, {count, 2}), from_vector(y));
}

// A dataset that returns single examples with a random part.
class Drawn : public data::Dataset {
 public:
  explicit Drawn(std::int64_t count) : count_(count) {}
  std::int64_t size() const override { return count_; }
  data::Example get(std::int64_t index) const override {
    return {rand({2}) + static_cast<double>(index), scalar(index)};
  }

 private:
  std::int64_t count_;
};

// Fails at one index, with a pause at each index.
template <class Exception>
class Failing : public data::Dataset {
 public:
  Failing(std::int64_t bad, int milliseconds = 0) : bad_(bad), pause_(milliseconds) {}
  std::int64_t size() const override { return 64; }
  data::Example get(std::int64_t index) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_));
    if (index == bad_) throw Exception("broken file");
    return {scalar(1.0f), scalar(index)};
  }

 private:
  std::int64_t bad_;
  int pause_;
};

// The values of every batch of an epoch.
using Values = std::vector<std::vector<float>>;
inline Values epoch_x(data::DataLoader& loader) {
  Values all;
  for (auto [x, y] : loader) all.push_back(x.to_vector<float>());
  return all;
}
inline std::vector<std::int64_t> epoch_y(data::DataLoader& loader) {
  std::vector<std::int64_t> all;
  for (auto [x, y] : loader)
    for (const std::int64_t value : y.to_vector<std::int64_t>()) all.push_back(value);
  return all;
}

}  // namespace volta::data_testing
