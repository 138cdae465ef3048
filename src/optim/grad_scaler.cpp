// GradScaler: the scale, what was found in the gradients and the growth of the scale are scalars on
// the device.
#include "volta/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "volta/autocast.h"
#include "volta/autograd.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/ops.h"
#include "volta/optimizer_ops.h"

namespace volta {

namespace {

void require(bool holds, const char* what, const char* wanted, double value) {
  if (!holds)
    throw ArgumentError(fmt::format("GradScaler: {} must be {}, got {}", what, wanted, value));
}
void require_options(const GradScalerOptions& options) {
  require(options.init_scale > 0 && std::isfinite(options.init_scale), "init_scale",
          "positive and finite", options.init_scale);
  require(options.growth_factor > 1, "growth_factor", "greater than 1", options.growth_factor);
  require(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor",
          "between 0 and 1", options.backoff_factor);
  require(options.growth_interval > 0, "growth_interval", "positive",
          static_cast<double>(options.growth_interval));
}

std::vector<Tensor> gradients_of(const optim::Optimizer& optimizer) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : optimizer.parameters()) {
    if (Tensor gradient = parameter.grad(); gradient.defined())
      gradients.push_back(std::move(gradient));
  }
  return gradients;
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options) { require_options(options); }

void GradScaler::require_scale(const char* function) const {
  if (scale_.defined()) return;
  throw ArgumentError(
      fmt::format("GradScaler: {} without a scaled loss: scale() was not called", function));
}

// The scalars are in memory from the start, so that the first steps have the plan of later ones.
void GradScaler::place_on(Device device) {
  if (scale_.defined()) return;
  scale_ = from_vector(std::vector<float>{static_cast<float>(options_.init_scale)}, Shape{},
                       {.device = device});
  growth_tracker_ =
      from_vector(std::vector<std::int32_t>{static_cast<std::int32_t>(initial_growth_)}, Shape{},
                  {.device = device});
}

Tensor GradScaler::scale(const Tensor& loss, Place place) {
  if (!loss.defined()) throw ArgumentError("GradScaler: the loss is not a tensor");
  if (!options_.enabled) return loss;
  place_on(loss.device());
  return mul({loss, place}, {scale_.to(loss.device(), place), place});
}

// Whether a gradient of the optimizer is not finite, on the scale's device.
Tensor GradScaler::check(const optim::Optimizer& optimizer, const char* function,
                         Place place) const {
  std::vector<Tensor> gradients = gradients_of(optimizer), found;
  for (const Tensor& gradient : gradients) {
    if (gradient.dtype() == DType::f16) {
      throw DTypeError(fmt::format(
          "GradScaler: {} needs gradients that can hold what is unscaled, got f16: parameters stay "
          "f32 under Autocast",
          function));
    }
  }
  if (gradients.empty()) {
    throw ArgumentError(fmt::format("GradScaler: {} of an optimizer without gradients", function));
  }
  while (!gradients.empty()) {
    std::vector<Tensor> here, elsewhere;
    for (const Tensor& gradient : gradients)
      (gradient.device() == gradients.front().device() ? here : elsewhere).push_back(gradient);
    found.push_back(any_nonfinite(here, place).to(scale_.device(), place));
    gradients = std::move(elsewhere);
  }
  return found.size() == 1 ? found[0] : total_norm(found, 1, place);
}

void GradScaler::unscale_(optim::Optimizer& optimizer, Place place) {
  if (!options_.enabled) return;
  const NoGrad no_grad;
  const Autocast as_they_are(DType::f32);
  require_scale("unscale_()");
  Progress& progress = progress_[&optimizer];
  if (progress.stage == Stage::unscaled) {
    throw ArgumentError(
        "GradScaler: unscale_() was called twice for an optimizer since the last update()");
  }
  if (progress.stage == Stage::stepped) {
    throw ArgumentError("GradScaler: unscale_() was called after step() of the optimizer");
  }
  progress.found_inf = check(optimizer, "unscale_()", place);
  const Tensor inverse = reciprocal(scale_, place);
  for (Tensor& gradient : gradients_of(optimizer))
    gradient *= Operand(inverse.to(gradient.device(), place), place);
  progress.stage = Stage::unscaled;
}

void GradScaler::step(optim::Optimizer& optimizer, Place place) {
  if (!options_.enabled) return optimizer.step(place);
  const NoGrad no_grad;
  const Autocast as_they_are(DType::f32);
  require_scale("step()");
  Progress& progress = progress_[&optimizer];
  if (progress.stage == Stage::stepped) {
    throw ArgumentError(
        "GradScaler: step() was called twice for an optimizer since the last update()");
  }
  if (!optimizer.skips_on_device()) {
    if (progress.stage == Stage::ready) unscale_(optimizer, place);
    progress.stage = Stage::stepped;
    if (progress.found_inf.item() == 0) optimizer.step(place);
    return;
  }
  ScaledStep scaled;
  if (progress.stage == Stage::ready) {
    progress.found_inf = check(optimizer, "step()", place);
    scaled.inverse_scale = reciprocal(scale_, place);
  }
  scaled.found_inf = progress.found_inf;
  progress.stage = Stage::stepped;
  struct Restore {
    ScaledStep& step;
    ~Restore() { step = {}; }
  } const restore{optimizer.scaled_};
  optimizer.scaled_ = std::move(scaled);
  optimizer.step(place);
}

void GradScaler::update(std::optional<double> new_scale, Place place) {
  if (!options_.enabled) return;
  const NoGrad no_grad;
  const Autocast as_they_are(DType::f32);
  require_scale("update()");
  if (new_scale) {
    require(*new_scale > 0 && std::isfinite(*new_scale), "new_scale", "positive and finite",
            *new_scale);
    scale_.fill_(*new_scale);
    progress_.clear();
    return;
  }
  std::vector<Tensor> found;
  for (const auto& [optimizer, progress] : progress_) {
    if (progress.found_inf.defined()) found.push_back(progress.found_inf);
  }
  if (found.empty()) {
    throw ArgumentError("GradScaler: update() without a step() or unscale_() since the last one");
  }
  const Tensor any = found.size() == 1 ? found[0] : total_norm(found, 1, place);
  const auto at = [place](const auto& value) { return Operand(value, place); };
  const Tensor failed = ne(at(any), at(0)), grown = add(at(growth_tracker_), at(1));
  const Tensor due = eq(at(grown), at(options_.growth_interval));
  const Tensor larger = mul(at(scale_), at(options_.growth_factor));
  // A scale that would be infinite stays.
  const Tensor finite = lt(at(larger), at(std::numeric_limits<double>::infinity()));
  const Tensor next = where(logical_and(at(due), at(finite)), at(larger), at(scale_));
  scale_.copy_(where(failed, at(mul(at(scale_), at(options_.backoff_factor))), at(next)), place);
  growth_tracker_.copy_(where(logical_or(at(failed), at(due)), at(0), at(grown)), place);
  progress_.clear();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item() : options_.init_scale;
}

StateDict GradScaler::state_dict() const {
  StateDict state;
  if (!options_.enabled) return state;
  const auto number = [&](const char* name, double value) {
    state.add(name, scalar(value, {.dtype = DType::f64}));
  };
  state.add("scale", scale_.defined() ? scale_.detach() : scalar(options_.init_scale));
  number("growth_factor", options_.growth_factor);
  number("backoff_factor", options_.backoff_factor);
  number("growth_interval", static_cast<double>(options_.growth_interval));
  state.add("growth_tracker", growth_tracker_.defined()
                                  ? growth_tracker_.detach()
                                  : scalar(initial_growth_, {.dtype = DType::i32}));
  return state;
}

void GradScaler::load_state_dict(const StateDict& state) {
  if (!options_.enabled) return;
  std::string problems;
  const auto number = [&](const char* name) -> double {
    const Tensor* value = state.find(name);
    if (value == nullptr) {
      problems += fmt::format("\n  missing: {}", name);
    } else if (value->numel() != 1) {
      problems += fmt::format("\n  wrong shape: {} is a number, {} in the state dict", name,
                              to_string(value->shape()));
    } else {
      return value->item();
    }
    return 0;
  };
  GradScalerOptions loaded = options_;
  loaded.init_scale = number("scale");
  loaded.growth_factor = number("growth_factor");
  loaded.backoff_factor = number("backoff_factor");
  loaded.growth_interval = static_cast<std::int64_t>(number("growth_interval"));
  const auto growth = static_cast<std::int64_t>(number("growth_tracker"));
  for (const auto& [name, tensor] : state) {
    static constexpr const char* kKnown[] = {"scale", "growth_factor", "backoff_factor",
                                             "growth_interval", "growth_tracker"};
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
      problems += fmt::format("\n  unexpected: {} {}", name, to_string(tensor.shape()));
  }
  if (!problems.empty())
    throw ArgumentError("GradScaler: the state dict does not fit the scaler" + problems);
  require_options(loaded);
  options_ = loaded;
  initial_growth_ = growth;
  if (!scale_.defined()) return;
  const NoGrad no_grad;
  scale_.fill_(loaded.init_scale);
  growth_tracker_.fill_(growth);
}

}  // namespace volta
