// GradScaler: losses scaled so that gradients in f16 do not vanish; steps whose gradients overflow
// are skipped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "volta/io.h"
#include "volta/optim/optimizer.h"
#include "volta/tensor.h"

namespace volta {

// Numbers are used in f32, and must be what is asked of them there.
struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;     // of the scale, after growth_interval steps in a row that went well
  double backoff_factor = 0.5;  // of the scale, after a step with a gradient that is not finite
  std::int64_t growth_interval = 2000;
  bool enabled = true;  // false: scale() gives its argument, step() is the optimizer's
};

// One iteration:
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);  // where gradients are looked at or clipped before the step
//   scaler.step(optimizer);      // each of several optimizers
//   scaler.update();
// Scale and decisions are on the device: nothing waits for it. A skipped step leaves parameters,
// state and step counts as they were. The scale stays where it would become infinite, or too small
// to divide by (below 2^-126).
class VOLTA_API GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  Tensor scale(const Tensor& loss, Place place = Place::here());
  // Divides the gradients of the optimizer's parameters by the scale, once before its step. Where
  // there are none it does nothing, and step() then throws.
  void unscale_(optim::Optimizer& optimizer, Place place = Place::here());
  // optimizer.step() with gradients divided by the scale, unless one of them is not finite. Where
  // unscale_() was not called, grad() keeps the scaled gradients. If it throws it may be called
  // again.
  void step(optim::Optimizer& optimizer, Place place = Place::here());
  // The scale for the next iteration, or a new one.
  void update(std::optional<double> new_scale = std::nullopt, Place place = Place::here());

  double get_scale() const;  // evaluates
  bool is_enabled() const { return options_.enabled; }

  // Scale, factors, interval and the number of steps since the scale changed; empty if disabled.
  StateDict state_dict() const;
  // Throws one ArgumentError listing all that does not fit, and then changes nothing.
  void load_state_dict(const StateDict& state);

 private:
  enum class Stage : std::uint8_t { ready, unscaled, stepped };
  // Of an optimizer, from its first call to update().
  struct Progress {
    std::weak_ptr<const char> optimizer;
    Stage stage = Stage::ready;
    Tensor found_inf;  // undefined: there were no gradients, or they were not looked at yet
  };
  void require_scale(const char* function) const;
  void place_on(Device device);
  Progress& progress_of(const optim::Optimizer& optimizer, Place place);
  Tensor check(const optim::Optimizer& optimizer, const char* function, Place place) const;

  GradScalerOptions options_;
  Tensor scale_, growth_tracker_;  // undefined until the first loss
  std::int32_t initial_growth_ = 0;
  std::vector<Progress> progress_;
  Tensor found_by_others_;  // in gradients of optimizers that are gone; undefined: of none
};

}  // namespace volta
