// GradScaler: scales losses so that f16 gradients do not underflow, and skips steps whose gradients
// overflow.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "volta/io.h"
#include "volta/optim/optimizer.h"
#include "volta/tensor.h"

namespace volta {

// Numbers are used and checked in f32.
struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;  // multiplies the scale after growth_interval good steps in a row
  // Multiplies the scale after a step with gradients that are not finite.
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  // If false, scale() returns its argument and step() only calls the optimizer.
  bool enabled = true;
};

// One iteration:
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);  // only if gradients are read or clipped before the step
//   scaler.step(optimizer);      // for each optimizer
//   scaler.update();
// The scale and all decisions stay on the device, so nothing waits for it. A skipped step leaves
// parameters, state and step counts unchanged. The scale is not changed if it would become infinite
// or too small to divide by (below 2^-126).
class VOLTA_API GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  Tensor scale(const Tensor& loss, SourceLocation place = SourceLocation::here());
  // Divides the gradients of the optimizer's parameters by the scale, once before its step. Without
  // gradients it does nothing, and step() then throws.
  void unscale_(optim::Optimizer& optimizer, SourceLocation place = SourceLocation::here());
  // Calls optimizer.step() with gradients divided by the scale, unless one of them is not finite.
  // Without unscale_(), grad() keeps the scaled gradients. After an exception step() may be called
  // again.
  void step(optim::Optimizer& optimizer, SourceLocation place = SourceLocation::here());
  // Updates the scale for the next iteration, or sets a new one.
  void update(std::optional<double> new_scale = std::nullopt,
              SourceLocation place = SourceLocation::here());

  double get_scale() const;  // evaluates the scale
  bool is_enabled() const { return options_.enabled; }

  // The scale, factors, interval and the number of steps since the scale changed; empty if
  // disabled.
  StateDict state_dict() const;
  // Throws one ArgumentError listing all mismatches, and then changes nothing.
  void load_state_dict(const StateDict& state);

 private:
  enum class Phase : std::uint8_t { ready, unscaled, stepped };
  // The state of an optimizer from its first call until update().
  struct Progress {
    std::weak_ptr<const char> optimizer;
    Phase phase = Phase::ready;
    Tensor found_inf;  // undefined if there were no gradients, or they were not checked yet
  };
  void require_scale(const char* function) const;
  void place_on(Device device);
  Progress& progress_of(const optim::Optimizer& optimizer, SourceLocation place);
  Tensor check(const optim::Optimizer& optimizer, const char* function, SourceLocation place) const;

  GradScalerOptions options_;
  Tensor scale_, growth_tracker_;  // undefined until the first loss
  std::int32_t initial_growth_ = 0;
  std::vector<Progress> progress_;
  // Result for optimizers that were destroyed; undefined if there are none.
  Tensor found_by_others_;
};

}  // namespace volta
